-- three cached tables change places in a circle
-- flavors: mysql,mariadb
-- cache: tort.a
-- cache: tort.b
-- cache: tort.c

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE a (id INT PRIMARY KEY, v INT);
CREATE TABLE b (id INT PRIMARY KEY, v INT);
CREATE TABLE c (id INT PRIMARY KEY, v VARCHAR(10));
INSERT INTO a VALUES (1,10),(2,20);
INSERT INTO b VALUES (1,11),(2,21),(3,31);
INSERT INTO c VALUES (1,'c');
-- SNAPSHOT
UPDATE a SET v=100 WHERE id=1;
RENAME TABLE a TO x, b TO a, c TO b, x TO c;
INSERT INTO a VALUES (4,41);
INSERT INTO b VALUES (2,'cc');
DELETE FROM c WHERE id=2;
RENAME TABLE c TO x, b TO c, a TO b, x TO a;
UPDATE a SET v=v+1;
UPDATE b SET v=v+1;
RENAME TABLE a TO b_, b TO a;
RENAME TABLE b_ TO b;
DELETE FROM b;
