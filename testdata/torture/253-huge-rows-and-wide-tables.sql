-- rows of megabytes, a table of 1000 columns, thousands of rows in one event
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2
-- cache: tort.t3
-- slow

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT);
CREATE TABLE t3 (id INT PRIMARY KEY, v VARCHAR(200));
INSERT INTO t1 VALUES (1,REPEAT('x',3000000),'small');
-- SNAPSHOT
UPDATE t1 SET t=REPEAT('y',5000000), b=NULL WHERE id=1;
INSERT INTO t1 VALUES (2,REPEAT(X'00ff',1000000),'');
UPDATE t1 SET id=3, b=CONCAT(b,'z') WHERE id=2;
DELIMITER $$
CREATE PROCEDURE wide() BEGIN
  DECLARE i INT DEFAULT 0;
  SET @q='CREATE TABLE t2 (id INT PRIMARY KEY';
  WHILE i < 1000 DO
    SET @q=CONCAT(@q, ', c', i, IF(i % 3 = 0, ' INT', ' VARCHAR(1)'));
    SET i=i+1;
  END WHILE;
  SET @q=CONCAT(@q, ')');
  PREPARE s FROM @q;
  EXECUTE s;
END$$
CREATE PROCEDURE fill() BEGIN
  DECLARE i INT DEFAULT 0;
  INSERT INTO t3 VALUES (0,REPEAT('r',100));
  WHILE i < 12 DO
    INSERT INTO t3 SELECT id+(1<<i), CONCAT('row ', id+(1<<i)) FROM t3;
    SET i=i+1;
  END WHILE;
END$$
DELIMITER ;
CALL wide();
INSERT INTO t2 (id, c0, c1, c999) VALUES (1,1,'a',9),(2,NULL,NULL,NULL);
UPDATE t2 SET c500='m', c998='e' WHERE id=2;
ALTER TABLE t2 DROP COLUMN c7;
UPDATE t2 SET c8='x';
CALL fill();
UPDATE t3 SET id=id+100000, v=CONCAT(v,'!');
DELETE FROM t3 WHERE id % 7 = 0;
