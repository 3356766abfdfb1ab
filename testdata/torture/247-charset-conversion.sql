-- character sets are converted under the key
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- refused: tort.t2 collation utf16_general_ci: character set not supported

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (k VARCHAR(20) PRIMARY KEY, v VARCHAR(20)) DEFAULT CHARSET=latin1;
CREATE TABLE t2 (k CHAR(10) PRIMARY KEY, e ENUM('ä','ö') CHARACTER SET utf8mb4, s SET('ß','x') CHARACTER SET utf8mb4) DEFAULT CHARSET=latin1;
INSERT INTO t1 VALUES ('é','ü'),('z','€');
INSERT INTO t2 VALUES ('ä','ö','ß,x'),('b','ä','');
-- SNAPSHOT
INSERT INTO t1 VALUES ('ñ','æ');
ALTER TABLE t1 CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci;
INSERT INTO t1 VALUES ('ж','日本');
UPDATE t1 SET v='neu' WHERE k='E';
ALTER TABLE t2 CONVERT TO CHARACTER SET utf8mb4;
UPDATE t2 SET e='ä' WHERE k='ä';
ALTER TABLE t2 MODIFY k CHAR(10) CHARACTER SET utf16 NOT NULL, MODIFY e ENUM('ö','ä','ü') CHARACTER SET utf8mb4;
INSERT INTO t2 VALUES ('ц','ö','ß');
ALTER TABLE t1 MODIFY k VARBINARY(80) NOT NULL;
DELETE FROM t1 WHERE k='z';
