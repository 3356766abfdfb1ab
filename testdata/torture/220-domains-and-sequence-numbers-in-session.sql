-- sessions choose domain, server and sequence numbers of their own
-- flavors: mariadb
-- cache: tort.t1
-- needs: SUPER

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
-- SNAPSHOT
SET SESSION gtid_domain_id=7;
INSERT INTO t1 VALUES (2,2);
SET SESSION server_id=99;
UPDATE t1 SET v=3 WHERE id=2;
SET SESSION gtid_domain_id=4294967295;
ALTER TABLE t1 ADD COLUMN w INT DEFAULT 1;
SET @n=CAST(SUBSTRING_INDEX(@@last_gtid,'-',-1) AS UNSIGNED)+1000000;
SET SESSION gtid_seq_no=@n;
INSERT INTO t1 VALUES (3,3,3);
INSERT INTO t1 VALUES (4,4,4);
SET SESSION gtid_domain_id=7;
DELETE FROM t1 WHERE id=1;
SET SESSION gtid_domain_id=0;
INSERT INTO t1 VALUES (5,5,5);
