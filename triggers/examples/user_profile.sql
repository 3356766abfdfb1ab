-- user_profile: triggers on app.users keep bc_cache.user_profile.
-- Made by: binlogcache triggers generate --spec user_profile.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: a change of a row of app.plans writes the cache rows of all rows of app.users that point to it, in the same transaction.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`user_profile` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  cas BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of user_profile, 00c5da950acee03b';
CREATE TABLE IF NOT EXISTS `bc_cache`.`user_profile_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of user_profile, d7a351e2fdd4aa83';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_user_profile_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_user_profile_fill`(IN chunk INT, IN chunks INT)
bc1_eef1e878eaab87cb: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`user_profile_fill`;
  -- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.
  DECLARE lo1 int;
  DECLARE hi1 int;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`user_profile_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1 INTO is_done, lo1 FROM `bc_cache`.`user_profile_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL;
    SELECT s.`id` INTO hi1 FROM `app`.`users` AS s
    WHERE lo1 IS NULL OR s.`id` > lo1
    ORDER BY s.`id` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
      FROM `app`.`users` AS s
      LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
      WHERE (lo1 IS NULL OR s.`id` > lo1) AND (hi1 IS NULL OR s.`id` <= hi1)
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`user_profile_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`user_profile_fill` SET id1 = hi1, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_user_profile_users_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_users_ad` AFTER DELETE ON `app`.`users` FOR EACH ROW
bc1_f86f07cd9896cf84: BEGIN
  -- The row has gone.
  DELETE FROM `bc_cache`.`user_profile` WHERE k = CAST(OLD.`id` AS CHAR);
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_profile_plans_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_plans_ad` AFTER DELETE ON `app`.`plans` FOR EACH ROW
bc1_5f38e5b4729b8f0c: BEGIN
  -- The rows of app.users that point here lose their partner.
  INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
    FROM `app`.`users` AS s
    LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
    WHERE s.`plan_id` = OLD.`id`
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_profile_users_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_users_au` AFTER UPDATE ON `app`.`users` FOR EACH ROW
bc1_521f53fdd15fbe4b: BEGIN
  -- Another key: the old one goes.
  IF NOT (OLD.`id` <=> NEW.`id`) THEN
    DELETE FROM `bc_cache`.`user_profile` WHERE k = CAST(OLD.`id` AS CHAR);
  END IF;
  -- Something that is stored has changed.
  IF NOT (
      OLD.`id` <=> NEW.`id`
      AND CAST(OLD.`uname` AS BINARY) <=> CAST(NEW.`uname` AS BINARY)
      AND CAST(OLD.`email` AS BINARY) <=> CAST(NEW.`email` AS BINARY)
      AND OLD.`plan_id` <=> NEW.`plan_id`
    ) THEN
    INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
      FROM `app`.`users` AS s
      LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
      WHERE s.`id` = NEW.`id`
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_profile_plans_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_plans_au` AFTER UPDATE ON `app`.`plans` FOR EACH ROW
bc1_83d93a86245c714c: BEGIN
  -- Something that is stored has changed, for the rows of app.users that point here.
  IF NOT (
      CAST(OLD.`title` AS BINARY) <=> CAST(NEW.`title` AS BINARY)
      AND OLD.`id` <=> NEW.`id`
    ) THEN
    INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
      FROM `app`.`users` AS s
      LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
      WHERE s.`plan_id` IN (OLD.`id`, NEW.`id`)
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_profile_users_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_users_ai` AFTER INSERT ON `app`.`users` FOR EACH ROW
bc1_52256266cd023a18: BEGIN
  -- A new row, with what it points to.
  INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
    FROM `app`.`users` AS s
    LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
    WHERE s.`id` = NEW.`id`
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_profile_plans_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_profile_plans_ai` AFTER INSERT ON `app`.`plans` FOR EACH ROW
bc1_1b8f5cacce2efb59: BEGIN
  -- The rows of app.users that point here get their partner.
  INSERT INTO `bc_cache`.`user_profile` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CAST(s.`id` AS CHAR) AS k, CONCAT(REPLACE(REPLACE(s.`uname`, '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(s.`email`, ''), '\\', '\\\\'), '|', '\\|'), '|', REPLACE(REPLACE(IFNULL(plan.`title`, ''), '\\', '\\\\'), '|', '\\|')) AS v
    FROM `app`.`users` AS s
    LEFT JOIN `app`.`plans` AS plan ON plan.`id` = s.`plan_id`
    WHERE s.`plan_id` = NEW.`id`
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `user_profile`.cas + 1;
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`user_profile_fill`;
CALL `bc_cache`.`bc_user_profile_fill`(500, NULL);
