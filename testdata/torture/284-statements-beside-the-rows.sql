-- the statement's own text is logged beside its rows, and looks like others
-- flavors: mysql
-- cache: tort.t1
-- cache: tort.t2
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(40));
CREATE TABLE t2 (id INT PRIMARY KEY, v VARCHAR(40));
INSERT INTO t1 VALUES (1,'a'),(2,'b');
INSERT INTO t2 SELECT * FROM t1;
-- SNAPSHOT
SET SESSION binlog_rows_query_log_events=ON;
INSERT INTO t1 VALUES (3,'DROP TABLE t1; COMMIT');
UPDATE t1, t2 SET t1.v='ROLLBACK', t2.v='TRUNCATE t2' WHERE t1.id=t2.id /* ; DROP DATABASE tort */;
DELETE t1, t2 FROM t1 JOIN t2 USING (id) WHERE t1.id=1 -- ALTER TABLE t1 DROP COLUMN v
;
SET SESSION binlog_rows_query_log_events=OFF;
REPLACE INTO t2 VALUES (2,'off'),(9,'new');
