-- the row image is switched in the middle of a transaction
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2 key=a

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, b TEXT, c INT DEFAULT 7);
CREATE TABLE t2 (a INT NOT NULL, b INT NOT NULL, c VARCHAR(10), UNIQUE KEY (a), UNIQUE KEY (b));
INSERT INTO t1 VALUES (1,1,'x',1),(2,2,'y',2),(3,3,'z',3);
INSERT INTO t2 VALUES (1,1,'x'),(2,2,'y'),(3,3,NULL);
-- SNAPSHOT
START TRANSACTION;
UPDATE t1 SET a=10 WHERE id=1;
SET SESSION binlog_row_image='MINIMAL';
UPDATE t1 SET a=11 WHERE id=1;
INSERT INTO t1 (id) VALUES (4);
SET SESSION binlog_row_image='FULL';
UPDATE t1 SET c=c+1;
UPDATE t2 SET c='full' WHERE a=1;
SET SESSION binlog_row_image='NOBLOB';
UPDATE t2 SET b=b+10;
DELETE FROM t1 WHERE id=2;
COMMIT;
SET SESSION binlog_row_image='MINIMAL';
START TRANSACTION;
DELETE FROM t2 WHERE c IS NULL;
ROLLBACK;
DELETE FROM t2 WHERE a=2;
SET SESSION binlog_row_image='FULL';
INSERT INTO t2 VALUES (2,2,'again');
