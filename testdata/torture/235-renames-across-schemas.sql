-- tables leave the schema and come back, in one statement and by ALTER
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.gone

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE gone (id INT PRIMARY KEY, v INT);
CREATE TABLE elsewhere.t1 (id INT PRIMARY KEY, w VARCHAR(10), x INT DEFAULT 4);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO gone VALUES (1,1);
INSERT INTO elsewhere.t1 VALUES (8,'eight',8),(9,'nine',9);
-- SNAPSHOT
RENAME TABLE tort.t1 TO elsewhere.tmp, elsewhere.t1 TO tort.t1, elsewhere.tmp TO elsewhere.t1;
UPDATE t1 SET w='ten' WHERE id=9;
UPDATE elsewhere.t1 SET v=v+1;
ALTER TABLE elsewhere.t1 RENAME TO tort.t2;
INSERT INTO t2 VALUES (3,3);
USE elsewhere;
ALTER TABLE tort.gone RENAME elsewhere.gone;
RENAME TABLE gone TO still_gone;
RENAME TABLE tort.t2 TO elsewhere.t2;
INSERT INTO t2 VALUES (4,4);
RENAME TABLE t2 TO tort.t2;
INSERT INTO tort.t2 VALUES (5,5);
DROP DATABASE elsewhere;
USE tort;
DELETE FROM t1 WHERE id=8;
