-- names with dots, quotes, backticks, blanks, key words and other scripts
-- flavors: mysql,mariadb
-- cache: tort.a.b
-- cache: tort.it's
-- cache: tort.back`tick
-- cache: tort.table
-- cache: tort.имя Таблица
-- cache: tort.say "hi"
-- cache: tort.select
-- cache: tort.ÄÖ

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE `a.b` (id INT PRIMARY KEY, `c.d` INT);
CREATE TABLE `it's` (`i'd` INT PRIMARY KEY, v INT);
CREATE TABLE `back``tick` (`i``d` INT PRIMARY KEY, v INT);
CREATE TABLE `table` (`key` INT PRIMARY KEY, `primary` INT);
CREATE TABLE `имя Таблица` (`ключ` INT PRIMARY KEY, v INT);
CREATE TABLE `say "hi"` (id INT PRIMARY KEY, v INT);
CREATE TABLE `ÄÖ` (id INT PRIMARY KEY, v INT);
INSERT INTO `a.b` VALUES (1,1);
INSERT INTO `it's` VALUES (1,1);
INSERT INTO `back``tick` VALUES (1,1);
INSERT INTO `table` VALUES (1,1);
INSERT INTO `имя Таблица` VALUES (1,1);
INSERT INTO `say "hi"` VALUES (1,1);
INSERT INTO `ÄÖ` VALUES (1,1),(2,2);
-- SNAPSHOT
ALTER TABLE `a.b` ADD COLUMN `e;f` INT DEFAULT 2;
TRUNCATE `it's`;
INSERT INTO `it's` VALUES (2,2);
ALTER TABLE `back``tick` ADD COLUMN `x``` INT DEFAULT 3;
RENAME TABLE `table` TO `select`;
ALTER TABLE `select` ADD COLUMN `index` INT DEFAULT 4 FIRST;
CREATE TABLE `table` LIKE `a.b`;
INSERT INTO `table` VALUES (5,5,5);
ALTER TABLE `имя Таблица` CHANGE v `значение` BIGINT DEFAULT -1, ADD COLUMN w INT DEFAULT 6;
SET sql_mode='ANSI_QUOTES';
ALTER TABLE "say ""hi""" ADD COLUMN "a""b" INT DEFAULT 7;
SET sql_mode='';
SET character_set_client=latin1;
DROP TABLE IF EXISTS `nothing`;
SET character_set_client=utf8mb4;
TRUNCATE TABLE `ÄÖ`;
INSERT INTO `ÄÖ` VALUES (3,3);
