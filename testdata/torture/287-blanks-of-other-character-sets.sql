-- blanks that only some character sets have: behind them stand names
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
CREATE TABLE t3 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 SELECT * FROM t1;
INSERT INTO t3 SELECT * FROM t1;
-- SNAPSHOT
SET NAMES latin1;
CREATE TABLE other (id INT PRIMARY KEY);
DROP TABLE other, t1;
ALTER TABLE t2 COMMENT 'x', ADD COLUMN w INT DEFAULT 5;
CREATE TABLE other (id INT PRIMARY KEY);
RENAME TABLE other TO other2, t3 TO t4, other2 TO t3;
SET NAMES utf8mb4;
INSERT INTO t3 VALUES (7);
UPDATE t2 SET w=6 WHERE id=1;
