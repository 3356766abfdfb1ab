-- definitions in the dialect of sql_mode=ORACLE, packages, and row changes by them
-- flavors: mariadb
-- cache: tort.t1

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(10));
INSERT INTO t1 VALUES (1,'one');
-- SNAPSHOT
SET sql_mode='ORACLE';
ALTER TABLE "t1" ADD COLUMN w VARCHAR2(10) DEFAULT 'w';
DELIMITER $$
CREATE OR REPLACE PACKAGE pk AS
  PROCEDURE go;
END$$
CREATE OR REPLACE PACKAGE BODY pk AS
  PROCEDURE go AS BEGIN
    INSERT INTO t1 VALUES (2,'two','x');
    UPDATE t1 SET v='uno' WHERE id=1;
  END;
END$$
DELIMITER ;
CALL pk.go();
TRUNCATE TABLE "t1";
CALL pk.go();
SET sql_mode='';
