-- parents in another schema, keys declared beside a column, children made later, two actions by two keys, a parent that is one of itself
-- flavors: mysql,mariadb
-- cache: tort.abroad
-- refused: tort.abroad on=mariadb has ON DELETE CASCADE
-- cache: tort.later
-- refused: tort.later on=mariadb has ON DELETE SET NULL and ON UPDATE CASCADE
-- cache: tort.grand
-- refused: tort.grand on=mariadb has ON UPDATE CASCADE
-- cache: tort.beside
-- refused: tort.beside on=mariadb has ON DELETE CASCADE
-- cache: tort.kept
-- cache: tort.unchecked
-- refused: tort.unchecked on=mariadb has ON DELETE CASCADE

DROP DATABASE IF EXISTS tort;
DROP DATABASE IF EXISTS elsewhere;
CREATE DATABASE elsewhere;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE elsewhere.p (id INT PRIMARY KEY, v INT);
INSERT INTO elsewhere.p VALUES (1,1),(2,2),(3,3),(4,4),(5,5);
CREATE TABLE abroad (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES elsewhere.p (id) ON DELETE CASCADE);
INSERT INTO abroad VALUES (10,1),(20,2),(30,2),(40,NULL);
CREATE TABLE beside (id INT PRIMARY KEY, p INT);
INSERT INTO beside VALUES (1,1),(2,2),(3,5);
CREATE TABLE kept (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES elsewhere.p (id) ON DELETE RESTRICT ON UPDATE NO ACTION);
INSERT INTO kept VALUES (1,4);
CREATE TABLE unchecked (id INT PRIMARY KEY, p INT);
INSERT INTO unchecked VALUES (1,5),(2,77);
-- SNAPSHOT
DELETE FROM elsewhere.p WHERE id=2;
CREATE TABLE later (id INT NOT NULL UNIQUE, p INT PRIMARY KEY, q INT UNIQUE, FOREIGN KEY (q) REFERENCES elsewhere.p (id) ON DELETE SET NULL ON UPDATE CASCADE);
INSERT INTO later VALUES (1,1,1),(2,2,3),(3,3,NULL);
CREATE TABLE grand (id INT PRIMARY KEY, q INT, FOREIGN KEY (q) REFERENCES later (q) ON UPDATE CASCADE);
INSERT INTO grand VALUES (1,1),(2,3);
UPDATE elsewhere.p SET id=33 WHERE id=3;
DELETE FROM elsewhere.p WHERE id=1;
UPDATE elsewhere.p SET v=v+1;
UPDATE beside SET p=5;
ALTER TABLE beside ADD CONSTRAINT k FOREIGN KEY (p) REFERENCES elsewhere.p (id) ON DELETE CASCADE;
SET foreign_key_checks=0;
ALTER TABLE unchecked ADD FOREIGN KEY (p) REFERENCES elsewhere.p (id) ON DELETE CASCADE;
SET foreign_key_checks=1;
DELETE FROM elsewhere.p WHERE id=5;
UPDATE kept SET p=33 WHERE id=1;
SET foreign_key_checks=0;
DELETE FROM elsewhere.p WHERE id=33;
SET foreign_key_checks=1;
INSERT INTO unchecked VALUES (3,NULL);
