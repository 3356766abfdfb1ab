-- NULLs in composite keys, unique and not
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t1 key=u
-- cache: tort.t1 key=k
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, b VARCHAR(5), c INT NOT NULL, UNIQUE KEY u (a, b), KEY k (c, b));
INSERT INTO t1 VALUES (1,1,'x',1),(2,1,NULL,1),(3,1,NULL,1),(4,NULL,'x',1),(5,NULL,NULL,2);
-- SNAPSHOT
INSERT INTO t1 VALUES (6,1,NULL,1),(7,NULL,'x',2);
UPDATE t1 SET b=NULL WHERE id=1;
UPDATE t1 SET b='x' WHERE id=2;
UPDATE t1 SET a=NULL, b='' WHERE id=3;
DELETE FROM t1 WHERE a IS NULL AND b IS NULL;
REPLACE INTO t1 VALUES (8,1,'X',0);
UPDATE t1 SET c=c+1, id=id+10 ORDER BY id DESC;
