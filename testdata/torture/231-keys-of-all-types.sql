-- keys of decimals, dates, times, enums, sets, bits, years and wide integers
-- flavors: mysql,mariadb
-- cache: tort.kdec
-- cache: tort.kdate
-- cache: tort.ktime
-- cache: tort.kenum
-- cache: tort.kset
-- cache: tort.kbit
-- cache: tort.kyear
-- cache: tort.kbig
-- steady

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
SET sql_mode='';
CREATE TABLE kdec (k DECIMAL(20,5) PRIMARY KEY, v INT);
CREATE TABLE kdate (k DATE, t DATETIME(2), v INT, PRIMARY KEY (k, t));
CREATE TABLE ktime (k TIME(3) PRIMARY KEY, v INT);
CREATE TABLE kenum (k ENUM('z','a','m,n','it''s'), v INT, PRIMARY KEY (k));
CREATE TABLE kset (k SET('x','y','z'), v INT, PRIMARY KEY (k));
CREATE TABLE kbit (k BIT(12) PRIMARY KEY, v INT);
CREATE TABLE kyear (k YEAR PRIMARY KEY, v INT);
CREATE TABLE kbig (k BIGINT UNSIGNED, s TINYINT, v INT, PRIMARY KEY (k, s));
INSERT INTO kdec VALUES (0,0),(-1.5,1),(123456789012345.12345,2),(0.00001,3),(-0.00001,4);
INSERT INTO kdate VALUES ('2020-02-29','2020-02-29 23:59:59.99',1),('0000-00-00','0000-00-00',2),('9999-12-31','1000-01-01',3),('2020-03-10','2020-01-01',4);
INSERT INTO ktime VALUES ('-838:59:59',1),('838:59:59',2),('00:00:00',3),('-00:00:00.001',4);
INSERT INTO kenum VALUES ('z',1),('a',2),('m,n',3),('bad',0);
INSERT INTO kset VALUES ('',0),('x',1),('x,z',2),('y',3);
INSERT INTO kbit VALUES (b'0',0),(b'111111111111',1),(b'100000000',2),(b'1',3);
INSERT INTO kyear VALUES (0,0),(1901,1),(2155,2),('00',3);
INSERT INTO kbig VALUES (0,-128,1),(18446744073709551615,127,2),(9223372036854775808,0,3);
-- SNAPSHOT
UPDATE kdec SET k=k-1 ORDER BY k;
INSERT INTO kdec VALUES (-0.0,9);
DELETE FROM kdec WHERE k=-2.5;
UPDATE kdate SET v=v+10;
UPDATE kdate SET k='0001-01-01' WHERE k='0000-00-00';
DELETE FROM kdate WHERE k='2020-03-10';
UPDATE ktime SET k='00:00:00.001' WHERE k='-00:00:00.001';
DELETE FROM ktime WHERE k='-838:59:59';
INSERT INTO ktime VALUES ('-00:00:01',5);
UPDATE kenum SET k='it''s' WHERE k='a';
DELETE FROM kenum WHERE k=0;
INSERT INTO kenum VALUES ('a',7);
UPDATE kset SET k='x,y,z' WHERE k='';
INSERT INTO kset VALUES ('z',8);
UPDATE kbit SET k=k+1 ORDER BY k DESC LIMIT 3;
DELETE FROM kbit WHERE k=b'1';
UPDATE kyear SET k=1999 WHERE k=0;
DELETE FROM kyear WHERE k=2155;
INSERT INTO kyear VALUES (2024,5);
UPDATE kbig SET k=k-1 WHERE s=127;
UPDATE kbig SET s=s+1 WHERE s<100;
DELETE FROM kbig WHERE k=0;
