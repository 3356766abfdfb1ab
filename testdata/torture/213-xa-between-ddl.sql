-- definitions change between XA PREPARE and XA COMMIT
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- needs: sessions

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 VALUES (1,1),(2,2);
-- SNAPSHOT
-- session: x
USE tort;
XA START 'd1';
UPDATE t1 SET v=v+100;
XA END 'd1';
XA PREPARE 'd1';
-- session: y
USE tort;
ALTER TABLE t2 ADD COLUMN w INT DEFAULT 4 FIRST;
CREATE TABLE other (id INT PRIMARY KEY);
RENAME TABLE other TO another;
UPDATE t2 SET v=9 WHERE id=1;
-- session: x
XA COMMIT 'd1';
ALTER TABLE t1 ADD COLUMN w INT DEFAULT 4 FIRST;
XA START 'd2';
INSERT INTO t1 VALUES (1,3,3);
XA END 'd2';
XA PREPARE 'd2';
-- session: y
DROP TABLE t2;
CREATE TABLE t2 (id INT PRIMARY KEY);
INSERT INTO t2 VALUES (5);
-- session: x
XA ROLLBACK 'd2';
INSERT INTO t1 VALUES (8,8,8);
