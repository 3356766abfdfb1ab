-- keys change into others that are equal to them
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3
-- database: tort.t3 u
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci PRIMARY KEY, v INT);
CREATE TABLE t2 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci PRIMARY KEY, v INT);
CREATE TABLE t3 (id INT PRIMARY KEY, u VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci NOT NULL, UNIQUE KEY u (u));
INSERT INTO t1 VALUES ('a',1),('e',2),('ß',3),('x ',4),('Æ',5);
INSERT INTO t2 VALUES ('a',1),('e',2),('ß',3),('x ',4),('æ',5),('i',6);
INSERT INTO t3 VALUES (1,'ä'),(2,'ß'),(3,'o'),(4,'u ');
-- SNAPSHOT
UPDATE t1 SET k='A' WHERE k='a';
UPDATE t1 SET k='É' WHERE k='e';
INSERT INTO t1 VALUES ('X',1) ON DUPLICATE KEY UPDATE k='X', v=v+1;
UPDATE t1 SET k='s' WHERE k='ß';
REPLACE INTO t1 VALUES ('ê',20),('æ',50);
INSERT INTO t1 VALUES ('ss',9);
UPDATE t2 SET k='Á' WHERE k='A';
UPDATE t2 SET k='ss' WHERE k='ß';
INSERT INTO t2 VALUES ('SS',1) ON DUPLICATE KEY UPDATE v=v+100;
REPLACE INTO t2 VALUES ('X',40);
UPDATE t2 SET k='İ' WHERE k='i';
UPDATE t2 SET k='e   ' WHERE k='è';
DELETE FROM t2 WHERE k='Æ';
UPDATE t3 SET u='ae' WHERE u='Ä';
UPDATE t3 SET u='ss' WHERE u='ß';
REPLACE INTO t3 VALUES (9,'U');
UPDATE t3 SET u='O' WHERE u='o';
DELETE FROM t3 WHERE u='SS';
