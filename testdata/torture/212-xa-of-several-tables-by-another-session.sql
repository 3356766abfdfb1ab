-- an XA transaction of two tables is ended by a session that did not begin it
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- needs: sessions

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE conn (id BIGINT);
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2),(3,3);
INSERT INTO t2 VALUES (1,1),(2,2),(3,3);
-- SNAPSHOT
-- session: x
USE tort;
INSERT INTO conn VALUES (CONNECTION_ID());
XA START 'two';
UPDATE t1 SET v=v+100 WHERE id IN (1,2);
DELETE FROM t2 WHERE id=1;
INSERT INTO t2 VALUES (0,7);
UPDATE t1 SET id=0 WHERE id=1;
XA END 'two';
XA PREPARE 'two';
-- session: y
USE tort;
SELECT id INTO @id FROM conn;
KILL CONNECTION @id;
-- sleep: 700ms
UPDATE t1 SET v=33 WHERE id=3;
DELETE FROM t2 WHERE id=3;
XA COMMIT 'two';
UPDATE t1 SET v=v+1;
UPDATE t2 SET v=v+1;
