-- The tables that the examples read.
CREATE DATABASE IF NOT EXISTS app CHARACTER SET utf8mb4;
CREATE TABLE IF NOT EXISTS app.plans (
  id INT NOT NULL PRIMARY KEY,
  title VARCHAR(40) NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS app.users (
  id INT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  uname VARCHAR(64) NOT NULL,
  email VARCHAR(128),
  status VARCHAR(10) NOT NULL DEFAULT 'active',
  plan_id INT,
  last_seen DATETIME,
  KEY plan_id (plan_id)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS app.scores (
  id BIGINT NOT NULL PRIMARY KEY AUTO_INCREMENT,
  game_id INT NOT NULL,
  user_id INT NOT NULL,
  points INT NOT NULL,
  KEY game_id (game_id, points)
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS app.sessions (
  sid CHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY,
  user_id INT NOT NULL,
  data TEXT,
  expires_at TIMESTAMP NULL,
  KEY user_id (user_id),
  CONSTRAINT session_user FOREIGN KEY (user_id) REFERENCES app.users (id) ON DELETE CASCADE
) ENGINE = InnoDB;
