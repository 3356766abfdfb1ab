-- transactions with GTIDs that the session gives, tagged ones and empty ones
-- flavors: mysql
-- cache: tort.t1

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
-- SNAPSHOT
SET @u=UUID();
SET gtid_next=CONCAT(@u,':5');
INSERT INTO t1 VALUES (2,2);
SET gtid_next=CONCAT(@u,':3');
BEGIN;
COMMIT;
SET gtid_next=CONCAT(@u,':mytag:1');
UPDATE t1 SET v=20 WHERE id=2;
SET gtid_next=CONCAT(@u,':4');
ALTER TABLE t1 ADD COLUMN w INT DEFAULT 6;
SET gtid_next=CONCAT(@u,':1');
INSERT INTO t1 VALUES (3,3,3);
SET gtid_next='AUTOMATIC:other_tag';
DELETE FROM t1 WHERE id=1;
SET gtid_next='AUTOMATIC';
INSERT INTO t1 VALUES (4,4,4);
