-- the primary key is computed from other columns
-- flavors: mysql
-- cache: tort.t1
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (a INT NOT NULL, b INT NOT NULL, k INT AS (a*100+b) STORED PRIMARY KEY, v VARCHAR(10));
INSERT INTO t1 (a,b,v) VALUES (1,1,'x'),(1,2,'y'),(2,1,'z');
-- SNAPSHOT
UPDATE t1 SET b=5 WHERE k=102;
UPDATE t1 SET a=a+1 ORDER BY k DESC;
DELETE FROM t1 WHERE v='x';
REPLACE INTO t1 (a,b,v) VALUES (3,1,'new'),(9,9,'nine');
INSERT INTO t1 (a,b,v) VALUES (9,9,'dup') ON DUPLICATE KEY UPDATE b=8;
