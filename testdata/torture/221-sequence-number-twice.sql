-- a session gives a number a second time that the last transaction has
-- flavors: mariadb
-- cache: tort.t1
-- needs: SUPER; sets gtid_strict_mode

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
-- SNAPSHOT
SET GLOBAL gtid_strict_mode=0;
SET SESSION gtid_domain_id=21;
INSERT INTO t1 VALUES (2,2);
SET @n=CAST(SUBSTRING_INDEX(@@last_gtid,'-',-1) AS UNSIGNED);
SET SESSION gtid_seq_no=@n;
INSERT INTO t1 VALUES (3,3);
SET SESSION gtid_seq_no=@n;
UPDATE t1 SET v=v+10;
SET SESSION gtid_domain_id=0;
SET GLOBAL gtid_strict_mode=1;
INSERT INTO t1 VALUES (4,4);
