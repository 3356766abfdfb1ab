-- statements about tables of the same names in another schema, with another default schema, prepared in one and run in another
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 VALUES (1,1);
-- SNAPSHOT
CREATE TABLE elsewhere.t1 (id INT PRIMARY KEY);
CREATE TABLE elsewhere.t2 LIKE t1;
ALTER TABLE `elsewhere` . `t1` ADD COLUMN v INT DEFAULT 3;
UPDATE t1 SET v=v+1;
RENAME TABLE elsewhere.t2 TO elsewhere.t3, elsewhere.t3 TO elsewhere.t2;
USE elsewhere;
TRUNCATE t1;
INSERT INTO t1 VALUES (9,9);
ALTER TABLE t2 DROP COLUMN v, RENAME TO t4;
INSERT INTO tort.t1 VALUES (3,3);
PREPARE drop_it FROM 'DROP TABLE t1';
USE tort;
EXECUTE drop_it;
DROP TABLE elsewhere.t4;
DELIMITER //
CREATE PROCEDURE elsewhere.make() BEGIN CREATE TABLE t2 (id INT PRIMARY KEY); INSERT INTO t2 VALUES (1); TRUNCATE TABLE t2; DROP TABLE t2; END//
DELIMITER ;
CALL elsewhere.make();
DROP DATABASE elsewhere;
INSERT INTO t2 VALUES (2,2);
