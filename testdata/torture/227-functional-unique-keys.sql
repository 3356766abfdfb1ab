-- keys over expressions and over members of arrays
-- flavors: mysql
-- cache: tort.t1
-- cache: tort.t2 key=g

DROP DATABASE IF EXISTS tort;
CREATE DATABASE tort CHARACTER SET utf8mb4;
USE tort;
CREATE TABLE t1 (id INT PRIMARY KEY, v VARCHAR(20), j JSON, UNIQUE KEY f ((LOWER(v))), KEY m ((CAST(j->'$.tags' AS UNSIGNED ARRAY))));
CREATE TABLE t2 (a INT NOT NULL, b INT NOT NULL, v INT, UNIQUE KEY f ((a+b)), UNIQUE KEY g (b, a));
INSERT INTO t1 VALUES (1,'One','{"tags":[1,2]}'),(2,'TWO','{"tags":[3]}');
INSERT INTO t2 VALUES (1,1,1),(1,2,2);
-- SNAPSHOT
INSERT INTO t1 VALUES (3,'two',NULL) ON DUPLICATE KEY UPDATE v='zwei', j='{"tags":[]}';
UPDATE t1 SET j=JSON_ARRAY_APPEND(j,'$.tags',9) WHERE id=1;
REPLACE INTO t1 VALUES (5,'ONE','{"tags":[8,8]}');
ALTER TABLE t1 ADD UNIQUE KEY h ((JSON_LENGTH(j)), id);
DELETE FROM t1 WHERE 8 MEMBER OF (j->'$.tags');
INSERT INTO t1 VALUES (6,NULL,NULL);
UPDATE t2 SET a=a+10;
REPLACE INTO t2 VALUES (5,7,9);
