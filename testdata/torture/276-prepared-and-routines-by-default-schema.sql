-- the default schema in which a statement was prepared, or a routine made, tells which table it means
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
CREATE TABLE t3 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 SELECT * FROM t1;
INSERT INTO t3 SELECT * FROM t1;
CREATE TABLE elsewhere.t1 (id INT PRIMARY KEY, w INT);
CREATE TABLE elsewhere.t3 (id INT PRIMARY KEY, w INT DEFAULT 6, x INT);
INSERT INTO elsewhere.t3 (id) VALUES (33);
-- SNAPSHOT
PREPARE change_it FROM 'ALTER TABLE t1 ADD COLUMN w INT DEFAULT 5';
USE elsewhere;
EXECUTE change_it;
INSERT INTO tort.t1 VALUES (3,3,3);
DELIMITER //
CREATE PROCEDURE tort.empty_it() BEGIN TRUNCATE TABLE t2; END//
CREATE PROCEDURE tort.swap() BEGIN RENAME TABLE t3 TO elsewhere.t4, elsewhere.t3 TO t3; END//
DELIMITER ;
CALL tort.empty_it();
INSERT INTO tort.t2 VALUES (7,7);
CALL tort.swap();
UPDATE tort.t3 SET x=1;
