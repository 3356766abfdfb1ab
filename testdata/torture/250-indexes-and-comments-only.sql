-- changes that leave the rows as they are: indexes, comments, defaults, statistics
-- flavors: mysql,mariadb
-- cache: tort.t1
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, b VARCHAR(20), KEY old (a));
INSERT INTO t1 VALUES (1,1,'x'),(2,2,'y'),(3,2,NULL);
-- SNAPSHOT
CREATE INDEX n ON t1 (a, id);
INSERT INTO t1 VALUES (4,1,'z');
DROP INDEX old ON t1;
ALTER TABLE t1 ADD UNIQUE KEY u (b), COMMENT='now unique';
UPDATE t1 SET a=9 WHERE id=2;
ALTER TABLE t1 RENAME INDEX u TO uu, ALTER COLUMN a SET DEFAULT 5, STATS_PERSISTENT=1;
INSERT INTO t1 (id) VALUES (5);
ALTER TABLE t1 DROP INDEX n, ADD INDEX n (b, a);
DELETE FROM t1 WHERE id=1;
ALTER TABLE t1 DROP INDEX n, ADD INDEX n (a);
CREATE FULLTEXT INDEX ft ON t1 (b);
UPDATE t1 SET b='words in it' WHERE id=3;
