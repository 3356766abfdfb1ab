-- comments, versions, quotes and blanks in the text of definitions
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
CREATE TABLE t3 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 VALUES (1,1),(2,2);
INSERT INTO t3 VALUES (1,1),(2,2);
-- SNAPSHOT
/* DROP TABLE t3 */ ALTER /*!50100 TABLE */ `tort` . `t1`
	ADD /* a column */ COLUMN c1 INT DEFAULT 1 -- ends here
	, # and here
	ADD COLUMN c2 VARCHAR(40) DEFAULT 'it\'s; -- no /* comment';
INSERT INTO t1 VALUES (3,3,3,'x');
/*!40000 TRUNCATE TABLE t2 */;
INSERT INTO t2 VALUES (9,9);
SET sql_mode='ANSI_QUOTES';
ALTER TABLE "t1" RENAME COLUMN "c1" TO "c ""1""";
INSERT INTO "t1" VALUES (4,4,4,'y');
SET sql_mode='NO_BACKSLASH_ESCAPES';
ALTER TABLE t3 ADD COLUMN s VARCHAR(20) DEFAULT '\', ADD COLUMN q VARCHAR(10) DEFAULT ''';';
INSERT INTO t3 (id) VALUES (3);
SET sql_mode='ANSI_QUOTES,NO_BACKSLASH_ESCAPES';
ALTER TABLE "t3" ADD COLUMN "\" INT DEFAULT 5 /* '"` */ COMMENT '\';
SET sql_mode='';
UPDATE t3 SET v=v+1;
ALTER TABLE t3 COMMENT "`'\"";
tRuNcAtE   t3;
INSERT INTO t3 (id) VALUES (1);
