-- tables of one name in two schemas change in one transaction, one of them followed
-- flavors: mysql,mariadb
-- cache: tort.t1
-- steady

DROP DATABASE IF EXISTS tort;
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE elsewhere.t1 (id VARCHAR(9) PRIMARY KEY, v INT, w INT);
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO elsewhere.t1 VALUES ('1',10,10),('2',20,20);
-- SNAPSHOT
BEGIN;
UPDATE elsewhere.t1 SET w=1;
UPDATE t1 JOIN elsewhere.t1 e ON t1.id=e.id SET t1.v=e.v, e.v=t1.v;
DELETE FROM elsewhere.t1 WHERE id='1';
INSERT INTO t1 SELECT id+10, v FROM elsewhere.t1;
COMMIT;
USE elsewhere;
DELETE t1, x FROM t1 JOIN tort.t1 x ON x.id=t1.id;
INSERT INTO tort.t1 VALUES (99,99);
