-- definitions change without a trace in the log, then rows of the new shape come
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3
-- cache: tort.t4
-- needs: SUPER

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, a INT, b INT);
CREATE TABLE t3 (id INT PRIMARY KEY, v INT);
CREATE TABLE t4 (id INT PRIMARY KEY, e ENUM('a','b'));
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 VALUES (1,1,-1),(2,2,-2);
INSERT INTO t3 VALUES (1,1),(2,2);
INSERT INTO t4 VALUES (1,'a'),(2,'b');
-- SNAPSHOT
SET sql_log_bin=0;
ALTER TABLE t1 ADD COLUMN w INT DEFAULT 3;
ALTER TABLE t2 RENAME COLUMN a TO b, RENAME COLUMN b TO a;
TRUNCATE TABLE t3;
ALTER TABLE t4 MODIFY e ENUM('b','a');
SET sql_log_bin=1;
UPDATE t1 SET w=4 WHERE id=1;
INSERT INTO t2 (id,a,b) VALUES (3,3,-3);
INSERT INTO t3 VALUES (1,1);
INSERT INTO t4 VALUES (3,'b');
