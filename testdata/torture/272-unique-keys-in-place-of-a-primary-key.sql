-- tables whose rows are told apart by a unique key, several of them, and a primary key that comes later
-- flavors: mysql,mariadb
-- cache: tort.t1 key=u
-- cache: tort.t2 key=b
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (a INT NOT NULL, b VARCHAR(10) NOT NULL, v INT, UNIQUE KEY u (b, a), UNIQUE KEY n (v));
CREATE TABLE t2 (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE KEY n (a), UNIQUE KEY b (b), UNIQUE KEY c (c));
INSERT INTO t1 VALUES (1,'x',1),(1,'y',NULL),(2,'x',3);
INSERT INTO t2 VALUES (NULL,1,10),(2,2,20),(NULL,3,30);
-- SNAPSHOT
UPDATE t1 SET v=v+10 WHERE b='x';
UPDATE t1 SET a=5 WHERE b='y';
DELETE FROM t1 WHERE v=13;
REPLACE INTO t1 VALUES (9,'Z',11);
UPDATE t2 SET b=b+1 ORDER BY b DESC;
REPLACE INTO t2 VALUES (2,3,30);
INSERT INTO t2 VALUES (7,7,7),(8,3,8) ON DUPLICATE KEY UPDATE a=a+1;
