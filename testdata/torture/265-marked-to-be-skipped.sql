-- events that replicas may skip
-- flavors: mariadb
-- cache: tort.t1
-- needs: SUPER

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
-- SNAPSHOT
SET SESSION skip_replication=1;
INSERT INTO t1 VALUES (2,2);
ALTER TABLE t1 ADD COLUMN w INT DEFAULT 3;
UPDATE t1 SET v=v+1;
SET SESSION skip_replication=0;
INSERT INTO t1 VALUES (3,3,3);
