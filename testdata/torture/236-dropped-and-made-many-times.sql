-- a table is dropped and made in quick succession, in other shapes
-- flavors: mysql,mariadb
-- cache: tort.t1
-- cache: tort.t2

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v INT);
INSERT INTO t1 VALUES (1,1);
CREATE TABLE t2 (id INT PRIMARY KEY, v INT);
INSERT INTO t2 VALUES (1,1),(2,2);
-- SNAPSHOT
DELIMITER $$
CREATE PROCEDURE again(n INT) BEGIN
  DECLARE i INT DEFAULT 0;
  WHILE i < n DO
    DROP TABLE t1;
    IF i % 2 = 0 THEN
      CREATE TABLE t1 (id INT PRIMARY KEY, s VARCHAR(10), n INT);
      INSERT INTO t1 VALUES (1,'s',i),(2,'t',i);
    ELSE
      CREATE TABLE t1 (n INT, id INT PRIMARY KEY);
      INSERT INTO t1 VALUES (i,1),(i,3);
    END IF;
    UPDATE t1 SET n=n+1000;
    TRUNCATE TABLE t2;
    INSERT INTO t2 VALUES (i,i),(i+1,i);
    SET i=i+1;
  END WHILE;
END$$
DELIMITER ;
CALL again(12);
DROP TABLE t1;
CREATE TABLE t1 (id INT PRIMARY KEY, last INT);
INSERT INTO t1 VALUES (7,7);
