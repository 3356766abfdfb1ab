-- a delete that is not logged, then the same keys again
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- needs: SUPER
-- note: an insert of a row that the cache has shows that something is missing

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2),(3,3);
INSERT INTO t2 VALUES (1,1),(2,2),(3,3);
-- SNAPSHOT
SET sql_log_bin=0;
DELETE FROM t1 WHERE id<3;
UPDATE t2 SET id=id+10;
SET sql_log_bin=1;
INSERT INTO t1 VALUES (1,100);
UPDATE t2 SET v=v+1 WHERE id=13;
