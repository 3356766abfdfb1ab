-- XA transactions of one phase, without changes, and after each other by one name
-- flavors: mysql,mariadb
-- cache: tort.t1

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2),(3,3);
-- SNAPSHOT
XA START 'one';
UPDATE t1 SET v=10 WHERE id=1;
XA END 'one';
XA COMMIT 'one' ONE PHASE;
XA START 'one';
SELECT COUNT(*) FROM t1;
XA END 'one';
XA PREPARE 'one';
XA COMMIT 'one';
XA START 'one';
DELETE FROM t1 WHERE id=2;
XA END 'one';
XA ROLLBACK 'one';
XA START 'one';
UPDATE t1 SET v=30 WHERE id=3;
XA END 'one';
XA PREPARE 'one';
XA ROLLBACK 'one';
XA START 'one';
UPDATE t1 SET v=31 WHERE id=3;
XA END 'one';
XA PREPARE 'one';
XA COMMIT 'one';
