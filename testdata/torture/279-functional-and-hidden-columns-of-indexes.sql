-- indexes that bring columns which nobody sees, and tables with generated columns
-- flavors: mysql
-- cache: tort.t1
-- cache: tort.t2

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(20));
CREATE TABLE t2 (id INT PRIMARY KEY, v INT, w INT AS (v*2) STORED, x CHAR(30) AS (CONCAT('x', v)) VIRTUAL);
INSERT INTO t1 VALUES (1,'a'),(2,'b');
INSERT INTO t2 (id,v) VALUES (1,1),(2,2);
-- SNAPSHOT
ALTER TABLE t1 ADD INDEX f ((LOWER(v)));
UPDATE t1 SET v='C' WHERE id=1;
CREATE INDEX g ON t1 (v, (CHAR_LENGTH(v)));
INSERT INTO t1 VALUES (3,'ccc');
DROP INDEX f ON t1;
UPDATE t1 SET v=CONCAT(v,v);
ALTER TABLE t1 DROP INDEX g, ADD FULLTEXT INDEX ft (v);
DELETE FROM t1 WHERE id=2;
ALTER TABLE t2 ADD INDEX (x), ADD INDEX (w), ALGORITHM=COPY;
UPDATE t2 SET v=v+1;
ALTER TABLE t2 COMMENT 'copied', ALGORITHM=COPY;
INSERT INTO t2 (id,v) VALUES (3,3);
