-- 0900 collations: case, accents, no padding, languages
-- flavors: mysql
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3
-- cache: tort.t4

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci PRIMARY KEY, v INT);
CREATE TABLE t2 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_as_cs PRIMARY KEY, v INT);
CREATE TABLE t3 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_de_pb_0900_ai_ci PRIMARY KEY, v INT);
CREATE TABLE t4 (k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_ja_0900_as_cs_ks PRIMARY KEY, v INT);
INSERT INTO t1 VALUES ('a',1),('a ',2),('ß',3),('ﬁ',4),('😀',5);
INSERT INTO t2 VALUES ('a',1),('A',2),('á',3),('a ',4),('ß',5),('ss',6);
INSERT INTO t3 VALUES ('ä',1),('p',2),('ü',3);
INSERT INTO t4 VALUES ('は',1),('ハ',2),('ば',3),('ー',4);
-- SNAPSHOT
UPDATE t1 SET k='Á' WHERE k='A';
REPLACE INTO t1 VALUES ('SS',30),('FI',40);
UPDATE t1 SET k='😁' WHERE v=5;
UPDATE t2 SET k='Á' WHERE k='á';
DELETE FROM t2 WHERE k='A';
UPDATE t2 SET k='SS' WHERE k='ß';
REPLACE INTO t3 VALUES ('AE',10),('Ö',20);
UPDATE t3 SET k='ue' WHERE k='ü';
UPDATE t4 SET k='バ' WHERE k='ば';
DELETE FROM t4 WHERE k='ハ';
ALTER TABLE t2 CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin;
INSERT INTO t2 VALUES ('ssx',7);
ALTER TABLE t3 MODIFY k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;
INSERT INTO t3 VALUES ('OE',77);
