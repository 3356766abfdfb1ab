-- virtual columns that a statement does not read
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, body TEXT, v1 INT AS (a+1) VIRTUAL, v2 TEXT AS (CONCAT(body,'.')) VIRTUAL, v3 INT AS (LENGTH(body)) VIRTUAL, KEY k (v1), KEY k3 (v3, a));
CREATE TABLE t2 (id INT PRIMARY KEY, a INT, v VARCHAR(20) AS (CONCAT('v',a)) VIRTUAL, s VARCHAR(20) AS (CONCAT('s',a)) STORED);
INSERT INTO t1 (id,a,body) VALUES (1,1,'one'),(2,2,REPEAT('b',20000)),(3,NULL,NULL),(4,4,'');
INSERT INTO t2 (id,a) VALUES (1,1),(2,2),(3,3),(4,4);
-- SNAPSHOT
UPDATE t1 SET a=a+1;
UPDATE t1 SET body='new' WHERE v1=3;
DELETE FROM t1 WHERE id=1;
DELETE FROM t1 WHERE v3=3;
UPDATE t2 SET a=20 WHERE id=2;
DELETE t2 FROM t2 JOIN t1 ON t1.id=t2.id WHERE t1.id=3;
REPLACE INTO t2 (id,a) VALUES (4,40);
INSERT INTO t2 (id,a) VALUES (2,9) ON DUPLICATE KEY UPDATE a=99;
START TRANSACTION;
UPDATE t2 SET id=id+10 ORDER BY id DESC;
DELETE FROM t2 WHERE v='v1';
COMMIT;
UPDATE t1 SET id=id*2 WHERE v1 IS NULL;
DELETE FROM t1;
