-- stored and virtual columns in primary, unique and other keys
-- flavors: mysql,mariadb
-- cache: tort.t2
-- cache: tort.t2 key=g
-- cache: tort.t3
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t2 (id INT PRIMARY KEY, name VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci, g VARCHAR(40) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci AS (CONCAT(name,'-',id)) VIRTUAL, n INT AS (id % 3) STORED, UNIQUE KEY g (g), KEY n (n));
CREATE TABLE t3 (id INT PRIMARY KEY, body TEXT, h CHAR(5) AS (SUBSTRING(body,1,5)) VIRTUAL, l INT AS (LENGTH(body)) VIRTUAL, KEY (h), KEY (l));
INSERT INTO t2 (id,name) VALUES (1,'one'),(2,'two'),(3,NULL),(4,'four');
INSERT INTO t3 (id,body) VALUES (1,'one'),(2,REPEAT('two',1000)),(3,NULL);
-- SNAPSHOT
UPDATE t2 SET name='Eins' WHERE id=1;
UPDATE t2 SET id=id+10 ORDER BY id DESC;
DELETE FROM t2 WHERE g='two-12';
INSERT INTO t2 (id,name) VALUES (1,'x') ON DUPLICATE KEY UPDATE name='dup';
DELETE FROM t3 WHERE id=1;
UPDATE t3 SET body=CONCAT(COALESCE(body,''),'+');
DELETE FROM t3 WHERE l=1;
DELETE t2 FROM t2 JOIN t3 ON t2.id=t3.id+10 WHERE t3.h IS NOT NULL;
UPDATE t2 JOIN t3 SET t2.name='joined', t3.body='joined' WHERE t2.n=1;
