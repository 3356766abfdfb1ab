-- secondary indexes come, go and change while rows are written: memory answers all the time, by the new indexes too
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t1 key=second
-- cache: tort.t2 key=ua
-- cache: tort.t3
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT AUTO_INCREMENT PRIMARY KEY, a INT, b VARCHAR(20), c DATE, KEY first_ (a), KEY second (b));
INSERT INTO t1 VALUES (1,1,'x','2020-01-01'),(2,2,'y',NULL),(3,2,NULL,'2021-02-03'),(4,NULL,'x','2020-01-01');
CREATE TABLE t2 (a INT NOT NULL, b INT NOT NULL, v INT, UNIQUE KEY ua (a));
INSERT INTO t2 VALUES (1,1,1),(2,2,2);
CREATE TABLE t3 (id INT PRIMARY KEY, p INT);
INSERT INTO t3 VALUES (1,1),(2,2);
-- SNAPSHOT
ALTER TABLE t1 ADD INDEX third (c, a DESC), ALGORITHM=INPLACE, LOCK=NONE;
INSERT INTO t1 VALUES (5,5,'z','2022-02-02');
BEGIN;
UPDATE t1 SET a=a+1, b=CONCAT(b,'!');
DELETE FROM t1 WHERE id=2;
COMMIT;
DROP INDEX second ON t1;
UPDATE t1 SET b='moved' WHERE id=3;
CREATE INDEX second ON t1 (c, b);
ALTER TABLE t1 RENAME INDEX first_ TO fourth, ADD UNIQUE KEY (id, b), COMMENT='third column', AUTO_INCREMENT=100;
INSERT INTO t1 (b) VALUES ('by itself');
ALTER TABLE t1 ALTER COLUMN a SET DEFAULT (7), ALTER b SET DEFAULT 'default', STATS_PERSISTENT=0, STATS_SAMPLE_PAGES=9;
INSERT INTO t1 () VALUES ();
ALTER TABLE t1 DROP INDEX fourth, DROP INDEX second, ADD KEY second (b(3));
ALTER TABLE t1 DISABLE KEYS;
ALTER TABLE t1 ENABLE KEYS;
DELETE FROM t1 WHERE id=1;
ALTER TABLE t2 ADD INDEX (v), ADD UNIQUE KEY ub (b);
UPDATE t2 SET a=a+10, b=b+1 ORDER BY b DESC;
ALTER TABLE t3 COMMENT 'ALTER TABLE t1 DROP COLUMN a', ADD INDEX (p) COMMENT 'DROP TABLE t1' /* DROP TABLE t2 */;
ANALYZE TABLE t1, t2;
