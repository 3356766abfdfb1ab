-- checksums and metadata of the log are switched between transactions
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t1 key=s
-- needs: SUPER

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT UNSIGNED PRIMARY KEY, s VARCHAR(20) NOT NULL, e ENUM('a','b','ö'), m SET('x','y'), b TINYINT UNSIGNED, c BINARY(4), UNIQUE KEY s (s));
INSERT INTO t1 VALUES (1,'one','a','x',200,'ab'),(4000000000,'two','ö','x,y',255,NULL);
-- SNAPSHOT
SET @checksum=@@global.binlog_checksum, @metadata=@@global.binlog_row_metadata;
INSERT INTO t1 VALUES (2,'zwei','b','y',128,'cd');
SET GLOBAL binlog_checksum=NONE;
UPDATE t1 SET b=b-1;
SET GLOBAL binlog_row_metadata=MINIMAL;
INSERT INTO t1 VALUES (3,'drei','ö','',129,'ef');
UPDATE t1 SET e='b', m='x' WHERE id=4000000000;
SET GLOBAL binlog_checksum=CRC32;
DELETE FROM t1 WHERE id=1;
ALTER TABLE t1 ADD COLUMN n INT UNSIGNED DEFAULT 3000000000 FIRST;
UPDATE t1 SET n=n+1, b=250 WHERE id=2;
SET GLOBAL binlog_row_metadata=FULL;
UPDATE t1 SET s=CONCAT(s,'!');
INSERT INTO t1 VALUES (1,5,'fünf','a','y',1,NULL);
SET GLOBAL binlog_checksum=@checksum, binlog_row_metadata=@metadata;
DELETE FROM t1 WHERE id=3;
