-- columns that the server keeps compressed, also in the log
-- flavors: mariadb
-- cache: tort.t1
-- refused: tort.t1 is not supported
-- cache: tort.t2

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(200) COMPRESSED, b BLOB COMPRESSED);
CREATE TABLE t2 (id INT PRIMARY KEY, v VARCHAR(200) COMPRESSED, w INT);
INSERT INTO t1 VALUES (1,REPEAT('a',150),REPEAT('b',500)),(2,'','x');
INSERT INTO t2 VALUES (1,REPEAT('a',150),1),(2,NULL,2);
-- SNAPSHOT
UPDATE t1 SET v=REPEAT('c',180) WHERE id=2;
UPDATE t2 SET v=REPEAT('d',180) WHERE id=2;
ALTER TABLE t2 MODIFY v VARCHAR(200);
UPDATE t2 SET v=CONCAT('e',LEFT(v,10));
INSERT INTO t2 VALUES (3,'plain',3);
