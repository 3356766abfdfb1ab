-- SET NULL, ON UPDATE CASCADE, keys to the table itself, and checks turned off
-- flavors: mysql,mariadb
-- cache: tort.setnull
-- cache: tort.onupdate
-- cache: tort.tree
-- cache: tort.restrict_
-- refused: tort.tree on=mariadb has ON DELETE CASCADE
-- refused: tort.onupdate on=mariadb has ON UPDATE CASCADE
-- refused: tort.setnull on=mariadb has ON DELETE SET NULL

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE parent (id INT PRIMARY KEY, code VARCHAR(5) NOT NULL, UNIQUE KEY (code));
CREATE TABLE setnull (id INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES parent(id) ON DELETE SET NULL);
CREATE TABLE onupdate (id INT PRIMARY KEY, c VARCHAR(5), FOREIGN KEY (c) REFERENCES parent(code) ON UPDATE CASCADE);
CREATE TABLE tree (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES tree(id) ON DELETE CASCADE);
CREATE TABLE restrict_ (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES parent(id) ON DELETE RESTRICT ON UPDATE NO ACTION);
INSERT INTO parent VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d');
INSERT INTO setnull VALUES (1,1,1),(2,2,2),(3,NULL,3);
INSERT INTO onupdate VALUES (1,'a'),(2,'b'),(3,NULL);
INSERT INTO tree VALUES (1,NULL),(2,1),(3,2),(4,3),(5,NULL);
INSERT INTO restrict_ VALUES (1,4);
-- SNAPSHOT
DELETE FROM parent WHERE id=3;
UPDATE parent SET code='bb' WHERE id=2;
UPDATE parent SET code='aa' WHERE id=1;
UPDATE onupdate SET c=NULL WHERE id=1;
DELETE FROM parent WHERE id=1;
DELETE FROM tree WHERE id=2;
INSERT INTO tree VALUES (6,1);
SET foreign_key_checks=0;
DELETE FROM parent WHERE id=2;
DELETE FROM tree WHERE id=1;
UPDATE restrict_ SET p=77;
SET foreign_key_checks=1;
UPDATE setnull SET v=v+1;
