-- user_card: triggers on app.users keep bc_cache.user_card.
-- Made by: binlogcache triggers generate --spec user_card.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`user_card` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of user_card, 4852723f2fca5fa5';
CREATE TABLE IF NOT EXISTS `bc_cache`.`user_card_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of user_card, 485f820b08d2e8a3';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_user_card_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_user_card_fill`(IN chunk INT, IN chunks INT)
bc1_900fba323c437369: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`user_card_fill`;
  -- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.
  DECLARE lo1 int;
  DECLARE hi1 int;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`user_card_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1 INTO is_done, lo1 FROM `bc_cache`.`user_card_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL;
    SELECT s.`id` INTO hi1 FROM `app`.`users` AS s
    WHERE lo1 IS NULL OR s.`id` > lo1
    ORDER BY s.`id` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`user_card` (k, v)
    SELECT d.k, d.v FROM (
      SELECT CONCAT('user:', s.`id`) AS k, JSON_OBJECT('id', s.`id`, 'name', s.`uname`, 'mail', s.`email`) AS v
      FROM `app`.`users` AS s
      WHERE (lo1 IS NULL OR s.`id` > lo1) AND (hi1 IS NULL OR s.`id` <= hi1) AND (s.`status` = 'active') IS TRUE
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v;
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`user_card_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`user_card_fill` SET id1 = hi1, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_user_card_users_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_card_users_ad` AFTER DELETE ON `app`.`users` FOR EACH ROW
bc1_967f5e904fe2e669: BEGIN
  -- The row has gone.
  IF (OLD.`status` = 'active') IS TRUE THEN
    DELETE FROM `bc_cache`.`user_card` WHERE k = CONCAT('user:', OLD.`id`);
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_card_users_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_card_users_au` AFTER UPDATE ON `app`.`users` FOR EACH ROW
bc1_c0b801eed3bacbb5: BEGIN
  -- Not wanted any more, or another key: the old one goes.
  IF (OLD.`status` = 'active') IS TRUE AND NOT ((NEW.`status` = 'active') IS TRUE AND OLD.`id` <=> NEW.`id`) THEN
    DELETE FROM `bc_cache`.`user_card` WHERE k = CONCAT('user:', OLD.`id`);
  END IF;
  -- Something that is stored has changed.
  IF (NEW.`status` = 'active') IS TRUE AND NOT (
      OLD.`id` <=> NEW.`id`
      AND CAST(OLD.`status` AS BINARY) <=> CAST(NEW.`status` AS BINARY)
      AND CAST(OLD.`uname` AS BINARY) <=> CAST(NEW.`uname` AS BINARY)
      AND CAST(OLD.`email` AS BINARY) <=> CAST(NEW.`email` AS BINARY)
    ) THEN
    INSERT INTO `bc_cache`.`user_card` (k, v)
    VALUES (CONCAT('user:', NEW.`id`),
            JSON_OBJECT('id', NEW.`id`, 'name', NEW.`uname`, 'mail', NEW.`email`))
    ON DUPLICATE KEY UPDATE
      v = JSON_OBJECT('id', NEW.`id`, 'name', NEW.`uname`, 'mail', NEW.`email`);
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_user_card_users_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_user_card_users_ai` AFTER INSERT ON `app`.`users` FOR EACH ROW
bc1_9fd07659afa0bece: BEGIN
  -- A new row.
  IF (NEW.`status` = 'active') IS TRUE THEN
    INSERT INTO `bc_cache`.`user_card` (k, v)
    VALUES (CONCAT('user:', NEW.`id`),
            JSON_OBJECT('id', NEW.`id`, 'name', NEW.`uname`, 'mail', NEW.`email`))
    ON DUPLICATE KEY UPDATE
      v = JSON_OBJECT('id', NEW.`id`, 'name', NEW.`uname`, 'mail', NEW.`email`);
  END IF;
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`user_card_fill`;
CALL `bc_cache`.`bc_user_card_fill`(500, NULL);
