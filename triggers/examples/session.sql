-- session: triggers on app.sessions keep bc_cache.session.
-- Made by: binlogcache triggers generate --spec session.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.
-- Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`session` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  flags INT UNSIGNED NOT NULL DEFAULT 0,
  exp BIGINT NOT NULL DEFAULT 0,
  KEY exp (exp)
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of session, 77d01ef8e9c982a9';
CREATE TABLE IF NOT EXISTS `bc_cache`.`session_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 char(32) CHARACTER SET ascii COLLATE ascii_bin NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of session, 5190c1348a3c4106';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_session_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_session_fill`(IN chunk INT, IN chunks INT)
bc1_6bc9f0e404205773: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`session_fill`;
  -- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.
  DECLARE lo1 char(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE hi1 char(32) CHARACTER SET ascii COLLATE ascii_bin;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`session_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1 INTO is_done, lo1 FROM `bc_cache`.`session_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL;
    SELECT s.`sid` INTO hi1 FROM `app`.`sessions` AS s
    WHERE lo1 IS NULL OR s.`sid` > lo1
    ORDER BY s.`sid` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`session` (k, v, flags, exp)
    SELECT d.k, d.v, d.flags, d.exp FROM (
      SELECT s.`sid` AS k, s.`data` AS v, 0 AS flags, IFNULL(UNIX_TIMESTAMP(s.`expires_at`), 0) AS exp
      FROM `app`.`sessions` AS s
      WHERE (lo1 IS NULL OR s.`sid` > lo1) AND (hi1 IS NULL OR s.`sid` <= hi1)
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp;
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`session_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`session_fill` SET id1 = hi1, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_session_sessions_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_session_sessions_ad` AFTER DELETE ON `app`.`sessions` FOR EACH ROW
bc1_b6a79752822c1395: BEGIN
  -- The row has gone.
  DELETE FROM `bc_cache`.`session` WHERE k = OLD.`sid`;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_session_users_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_session_users_bd` BEFORE DELETE ON `app`.`users` FOR EACH ROW
bc1_a1cf0725e6521b81: BEGIN
  -- By foreign key the server changes or deletes rows of app.sessions then, without their triggers (session_user).
  DELETE c FROM `bc_cache`.`session` AS c JOIN (
    SELECT s.`sid` AS k
    FROM `app`.`sessions` AS s
    WHERE s.`user_id` = OLD.`id`
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_session_sessions_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_session_sessions_au` AFTER UPDATE ON `app`.`sessions` FOR EACH ROW
bc1_df5e76535dbe11a6: BEGIN
  -- Another key: the old one goes.
  IF NOT (CAST(OLD.`sid` AS BINARY) <=> CAST(NEW.`sid` AS BINARY)) THEN
    DELETE FROM `bc_cache`.`session` WHERE k = OLD.`sid`;
  END IF;
  -- Something that is stored has changed.
  IF NOT (
      CAST(OLD.`sid` AS BINARY) <=> CAST(NEW.`sid` AS BINARY)
      AND CAST(OLD.`data` AS BINARY) <=> CAST(NEW.`data` AS BINARY)
      AND OLD.`expires_at` <=> NEW.`expires_at`
    ) THEN
    INSERT INTO `bc_cache`.`session` (k, v, flags, exp)
    VALUES (NEW.`sid`,
            NEW.`data`,
            0,
            IFNULL(UNIX_TIMESTAMP(NEW.`expires_at`), 0))
    ON DUPLICATE KEY UPDATE
      v = NEW.`data`,
      flags = 0,
      exp = IFNULL(UNIX_TIMESTAMP(NEW.`expires_at`), 0);
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_session_sessions_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_session_sessions_ai` AFTER INSERT ON `app`.`sessions` FOR EACH ROW
bc1_2a0fd0d8ec457cca: BEGIN
  -- A new row.
  INSERT INTO `bc_cache`.`session` (k, v, flags, exp)
  VALUES (NEW.`sid`,
          NEW.`data`,
          0,
          IFNULL(UNIX_TIMESTAMP(NEW.`expires_at`), 0))
  ON DUPLICATE KEY UPDATE
    v = NEW.`data`,
    flags = 0,
    exp = IFNULL(UNIX_TIMESTAMP(NEW.`expires_at`), 0);
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_session_users_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_session_users_ai` AFTER INSERT ON `app`.`users` FOR EACH ROW
bc1_91c03fccb7166a55: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.sessions as they were then.
  INSERT INTO `bc_cache`.`session` (k, v, flags, exp)
  SELECT d.k, d.v, d.flags, d.exp FROM (
    SELECT s.`sid` AS k, s.`data` AS v, 0 AS flags, IFNULL(UNIX_TIMESTAMP(s.`expires_at`), 0) AS exp
    FROM `app`.`sessions` AS s
    WHERE s.`user_id` = NEW.`id`
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp;
END//
DELIMITER ;

-- Events.
DROP EVENT IF EXISTS `bc_cache`.`bc_session_purge`;
DELIMITER //
CREATE EVENT `bc_cache`.`bc_session_purge`
ON SCHEDULE EVERY 1 MINUTE ON COMPLETION PRESERVE
COMMENT 'binlogcache: deletes expired rows of bc_cache.session'
DO
bc1_544ab2279214c0cd: BEGIN
  -- Deletes what has expired. A run that is still at work makes the next one do nothing.
  IF GET_LOCK('bc_cache.session purge', 0) THEN
    DELETE FROM `bc_cache`.`session` WHERE exp > 0 AND exp < UNIX_TIMESTAMP() ORDER BY exp LIMIT 1000;
    DO RELEASE_LOCK('bc_cache.session purge');
  END IF;
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`session_fill`;
CALL `bc_cache`.`bc_session_fill`(500, NULL);
