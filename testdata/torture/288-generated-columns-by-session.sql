-- generated columns that each session computes in its own way, and that a copy of the table computes again
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- refused: tort.t2 its virtual column "g" depends on the session by "ts", a TIMESTAMP
-- cache: tort.t3
-- refused: tort.t3 its virtual column "g" depends on the session by dayname()

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, ts TIMESTAMP NULL, g VARCHAR(40) AS (CONCAT(ts,'')) STORED);
CREATE TABLE t2 (id INT PRIMARY KEY, ts TIMESTAMP NULL, g VARCHAR(40) AS (CONCAT(ts,'')) VIRTUAL);
CREATE TABLE t3 (id INT PRIMARY KEY, d DATE, g VARCHAR(40) AS (DAYNAME(d)) VIRTUAL);
SET time_zone='+00:00';
INSERT INTO t1 (id,ts) VALUES (1,'2020-01-01 00:00:00'),(2,NULL);
INSERT INTO t2 (id,ts) VALUES (1,'2020-01-01 00:00:00');
INSERT INTO t3 (id,d) VALUES (1,'2020-01-01');
-- SNAPSHOT
SET time_zone='+05:00', lc_time_names='de_DE';
INSERT INTO t1 (id,ts) VALUES (3,'2021-01-01 00:00:00');
INSERT INTO t2 (id,ts) VALUES (3,'2021-01-01 00:00:00');
INSERT INTO t3 (id,d) VALUES (3,'2021-01-01');
SET old_alter_table=1;
OPTIMIZE TABLE t1;
SET time_zone='-03:00';
ALTER TABLE t1 COMMENT 'copied';
SET time_zone='+02:00';
ALTER TABLE t1 ADD INDEX (ts);
