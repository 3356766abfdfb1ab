-- an insert that is not logged, then a change or a delete of that row
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- needs: SUPER

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
INSERT INTO t2 VALUES (1,1);
-- SNAPSHOT
SET sql_log_bin=0;
INSERT INTO t1 VALUES (2,2),(3,3);
INSERT INTO t2 VALUES (2,2),(3,3);
SET sql_log_bin=1;
DO SLEEP(0.3);
UPDATE t1 SET v=20 WHERE id=2;
DELETE FROM t2 WHERE id=2;
