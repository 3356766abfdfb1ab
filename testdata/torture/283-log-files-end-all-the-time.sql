-- the log goes to new files within and between transactions of several sessions
-- flavors: mysql,mariadb
-- cache: tort.t1
-- needs: SUPER, sessions
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, pad VARCHAR(3000));
INSERT INTO t1 VALUES (1,'x'),(2,'y');
-- SNAPSHOT
SET @size=@@global.max_binlog_size;
SET GLOBAL max_binlog_size=4096;
-- session: a
BEGIN;
INSERT INTO t1 VALUES (3,REPEAT('a',3000)),(4,REPEAT('b',3000));
-- session: main
FLUSH BINARY LOGS;
UPDATE t1 SET pad=REPEAT('x',3000) WHERE id=1;
FLUSH LOGS;
-- session: a
UPDATE t1 SET pad=CONCAT('c',pad) WHERE id=2;
SAVEPOINT s;
DELETE FROM t1 WHERE id=3;
-- session: main
FLUSH BINARY LOGS;
FLUSH BINARY LOGS;
-- session: a
ROLLBACK TO SAVEPOINT s;
INSERT INTO t1 VALUES (5,REPEAT('d',3000)),(6,REPEAT('e',3000)),(7,REPEAT('f',3000));
COMMIT;
-- session: main
DELETE FROM t1 WHERE id=5;
XA START 'r';
UPDATE t1 SET pad='xa' WHERE id=6;
XA END 'r';
XA PREPARE 'r';
-- session: a
FLUSH BINARY LOGS;
-- session: main
XA COMMIT 'r';
SET GLOBAL max_binlog_size=@size;
UPDATE t1 SET id=id+100 ORDER BY id DESC;
