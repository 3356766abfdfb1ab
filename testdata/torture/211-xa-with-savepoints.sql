-- savepoints inside XA transactions
-- flavors: mysql,mariadb
-- cache: tort.t1
-- needs: sessions

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1),(2,2),(3,3);
-- SNAPSHOT
-- session: x
USE tort;
XA START 'sp','branch',7;
UPDATE t1 SET v=10 WHERE id=1;
SAVEPOINT s;
UPDATE t1 SET v=20 WHERE id=2;
INSERT INTO t1 VALUES (9,9);
ROLLBACK TO SAVEPOINT s;
INSERT INTO t1 VALUES (4,4);
XA END 'sp','branch',7;
XA PREPARE 'sp','branch',7;
-- session: y
USE tort;
UPDATE t1 SET v=30 WHERE id=3;
-- session: x
XA COMMIT 'sp','branch',7;
XA START X'00ff27','\'',1;
DELETE FROM t1 WHERE id=3;
XA END X'00ff27','\'',1;
XA PREPARE X'00ff27','\'',1;
XA COMMIT X'00ff27','\'',1;
