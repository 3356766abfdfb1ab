-- the schema's default character set and collation change what later definitions mean
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3
-- refused: tort.t3 collation ucs2_general_ci: character set not supported

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (k VARCHAR(10) PRIMARY KEY, v INT);
INSERT INTO t1 VALUES ('a',1),('b',2);
-- SNAPSHOT
ALTER DATABASE tort CHARACTER SET latin1 COLLATE latin1_bin;
CREATE TABLE t2 (k VARCHAR(10) PRIMARY KEY, v INT);
INSERT INTO t2 VALUES ('a',1),('A',2),('é',3);
ALTER TABLE t1 ADD COLUMN w VARCHAR(10) DEFAULT 'é';
INSERT INTO t1 VALUES ('c',3,'ü');
ALTER SCHEMA tort COLLATE utf8mb4_bin;
DROP TABLE t2;
CREATE TABLE t2 (k VARCHAR(10) PRIMARY KEY, v INT);
INSERT INTO t2 VALUES ('a',1),('A',2),('é',3);
ALTER TABLE t1 CONVERT TO CHARACTER SET DEFAULT;
INSERT INTO t1 VALUES ('AA',4,'Ü');
CREATE TABLE t3 (k VARCHAR(10) PRIMARY KEY) DEFAULT CHARSET=ucs2;
INSERT INTO t3 VALUES ('a'),('é');
UPDATE t3 SET k='É' WHERE k='é';
