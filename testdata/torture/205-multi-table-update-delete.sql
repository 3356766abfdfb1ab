-- one statement changes several tables
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT, KEY (v));
CREATE TABLE t2 (id INT PRIMARY KEY, t1 INT, w VARCHAR(10), UNIQUE KEY (w));
INSERT INTO t1 VALUES (1,10),(2,20),(3,30),(4,40);
INSERT INTO t2 VALUES (1,1,'a'),(2,2,'b'),(3,3,'c'),(4,NULL,NULL),(5,3,'e');
-- SNAPSHOT
UPDATE t1, t2 SET t1.v=t1.v+1, t2.w=CONCAT(t2.w,'!') WHERE t2.t1=t1.id;
UPDATE t1 JOIN t2 ON t2.t1=t1.id SET t1.id=t1.id+100, t2.id=t2.id+200 WHERE t2.id<>5;
DELETE t1, t2 FROM t1 JOIN t2 ON t2.t1=t1.id-100 WHERE t1.id=101;
DELETE FROM t2 USING t1 JOIN t2 WHERE t2.t1=t1.id-100 AND t1.id=103;
UPDATE t1 LEFT JOIN t2 ON t2.t1=t1.id SET t1.v=NULL WHERE t2.id IS NULL;
UPDATE t1 a JOIN t1 b ON a.id<>b.id SET a.v=b.id WHERE a.id=4 AND b.id=102;
UPDATE t2 SET w=NULL, t1=(SELECT MAX(id) FROM t1);
