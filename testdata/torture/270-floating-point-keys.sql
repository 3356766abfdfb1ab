-- keys of doubles: negative zero, the smallest and the largest
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- refused: tort.t2 is a FLOAT, whose text does not tell all values apart
-- note: single precision has no text that tells all values apart: refused

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (k DOUBLE PRIMARY KEY, v INT);
CREATE TABLE t2 (k FLOAT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (0,0),(1.5,1),(-1.5,2),(1e308,3),(4.9e-324,4),(-1e-300,5),(0.1,6);
INSERT INTO t2 VALUES (0.1,1),(16777216,2);
-- SNAPSHOT
UPDATE t1 SET k=-k WHERE v IN (3,6);
UPDATE t1 SET k=-0e0 WHERE v=0;
UPDATE t1 SET v=v+10;
INSERT INTO t1 VALUES (0,7) ON DUPLICATE KEY UPDATE v=77;
DELETE FROM t1 WHERE k=4.9e-324;
UPDATE t1 SET k=k/3 WHERE k<0;
UPDATE t2 SET k=k*2;
