-- LOAD DATA that replaces, ignores, sets, and fails half-way
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- needs: FILE privilege, secure_file_priv empty

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE src (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO src VALUES (1,'one'),(2,'two'),(3,NULL),(4,'tab\there'),(5,'back\\slash'),(6,'');
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(20) UNIQUE, at TIMESTAMP NULL);
CREATE TABLE t2 (id INT PRIMARY KEY, v VARCHAR(20));
INSERT INTO t1 VALUES (1,'two',NULL),(2,'one',NULL),(40,'x',NULL);
-- SNAPSHOT
SELECT id, v FROM src INTO OUTFILE 'load208.BAK';
LOAD DATA INFILE 'load208.BAK' REPLACE INTO TABLE t1 (id, v) SET at='2020-02-02 02:02:02';
LOAD DATA INFILE 'load208.BAK' IGNORE INTO TABLE t1 (@i, v) SET id=@i+100;
SET SESSION binlog_format='STATEMENT';
LOAD DATA INFILE 'load208.BAK' INTO TABLE t2 (id, v);
SET SESSION binlog_format='ROW';
UPDATE t2 SET v='after' WHERE id=1;
