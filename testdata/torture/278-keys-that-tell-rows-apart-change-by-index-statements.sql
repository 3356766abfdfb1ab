-- CREATE INDEX, DROP INDEX and RENAME INDEX of the key that tells rows apart
-- flavors: mysql,mariadb
-- cache: tort.t1 key=b
-- cache: tort.t2 key=k2
-- cache: tort.t3 key=a
-- refused: tort.t3 it has neither a primary key nor a unique index over whole NOT NULL columns

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY a (a));
CREATE TABLE t2 (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY k1 (a));
CREATE TABLE t3 (a INT NOT NULL, UNIQUE KEY a (a));
INSERT INTO t1 VALUES (1,1),(2,2);
INSERT INTO t2 VALUES (1,1),(2,2);
INSERT INTO t3 VALUES (1),(2);
-- SNAPSHOT
CREATE UNIQUE INDEX b ON t1 (b);
DROP INDEX a ON t1;
INSERT INTO t1 VALUES (1,3);
UPDATE t1 SET a=1;
ALTER TABLE t2 RENAME INDEX k1 TO k2;
UPDATE t2 SET a=a+5, b=0;
INSERT INTO t2 VALUES (1,1);
DROP INDEX a ON t3;
INSERT INTO t3 VALUES (1),(1);
