-- a primary key over the beginning of a column, alone and beside a whole key
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2 key=w
-- refused: tort.t1 its primary key holds only the first characters of a column
-- note: t1 has no key that tells rows apart by whole values

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (v VARCHAR(50) NOT NULL, n INT, PRIMARY KEY (v(3)));
CREATE TABLE t2 (v VARCHAR(50) NOT NULL, w INT NOT NULL, b BLOB NOT NULL, PRIMARY KEY (v(2)), UNIQUE KEY w (w), UNIQUE KEY (b(4)));
INSERT INTO t1 VALUES ('alpha',1),('beta',2);
INSERT INTO t2 VALUES ('alpha',1,'0000x'),('beta',2,'1111x');
-- SNAPSHOT
UPDATE t1 SET v='alpine' WHERE n=1;
REPLACE INTO t1 VALUES ('bet',3);
UPDATE t2 SET v='al' WHERE w=1;
REPLACE INTO t2 VALUES ('better',3,'2222');
INSERT INTO t2 VALUES ('alas',9,'9') ON DUPLICATE KEY UPDATE w=w+1, b='9';
ALTER TABLE t1 DROP PRIMARY KEY, ADD PRIMARY KEY (v);
INSERT INTO t1 VALUES ('bets',4);
ALTER TABLE t1 DROP PRIMARY KEY, ADD PRIMARY KEY (v(4));
DELETE FROM t1 WHERE n=3;
