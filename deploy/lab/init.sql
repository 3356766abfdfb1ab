-- The sample data of the laboratory, for MySQL and MariaDB.
CREATE DATABASE app CHARACTER SET utf8mb4;
USE app;

CREATE TABLE user (
  id INT PRIMARY KEY AUTO_INCREMENT,
  uname VARCHAR(64) NOT NULL,
  email VARCHAR(128) NOT NULL,
  add_time DATETIME NOT NULL
) ENGINE=InnoDB;

-- 100,000 rows: five digits of every value.
INSERT INTO user (id, uname, email, add_time)
WITH digit AS (
  SELECT 0 AS n UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4
  UNION ALL SELECT 5 UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9
), number AS (
  SELECT 1 + a.n + 10 * b.n + 100 * c.n + 1000 * d.n + 10000 * e.n AS id
  FROM digit a CROSS JOIN digit b CROSS JOIN digit c CROSS JOIN digit d CROSS JOIN digit e
)
SELECT id, CONCAT('user', id), CONCAT('user', id, '@example.com'), '2026-01-01' + INTERVAL id MINUTE
FROM number ORDER BY id;

-- What binlogcache needs: to read the tables, and to follow the log.
CREATE USER 'cache'@'%' IDENTIFIED BY 'lab';
GRANT SELECT ON app.* TO 'cache'@'%';
GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'cache'@'%';
