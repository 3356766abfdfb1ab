-- ALTER IGNORE with a unique key removes rows without a row event
-- flavors: mariadb
-- cache: tort.t1
-- cache: tort.t2

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,1),(3,3);
INSERT INTO t2 VALUES (1,1),(2,1),(3,3);
-- SNAPSHOT
ALTER IGNORE TABLE t1 ADD UNIQUE KEY u (v);
INSERT INTO t1 VALUES (4,4);
SET STATEMENT max_statement_time=100 FOR ALTER IGNORE TABLE t2 ADD UNIQUE KEY u (v), COMMENT 'x';
UPDATE t2 SET v=5 WHERE id=3;
