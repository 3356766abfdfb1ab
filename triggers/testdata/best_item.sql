-- best_item: triggers on app.items keep bc_cache.best_item.
-- Made by: binlogcache triggers generate --spec best_item.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change marks its group in the same transaction, so writers of one group wait for each other; the value is computed later, every 1 SECOND.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.
-- Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`best_item` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of best_item, ea30ba6f190f75d7';
CREATE TABLE IF NOT EXISTS `bc_cache`.`best_item_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of best_item, 8e9c9bc4061eb33c';
CREATE TABLE IF NOT EXISTS `bc_cache`.`best_item_due` (
  id1 int NOT NULL,
  since TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  tries INT NOT NULL DEFAULT 0,
  PRIMARY KEY (id1),
  KEY since (since)
) ENGINE = InnoDB COMMENT = 'binlogcache: marks of best_item, 44a9352124eab6de';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_best_item_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_best_item_fill`(IN chunk INT, IN chunks INT)
bc1_dfe21f642196fa2b: BEGIN
  -- Marks all groups that are there already; they are computed like those that change.
  -- `chunk` × `chunks` groups in one call (NULL: all), each in a transaction of its own. The next call goes on where the last
  -- one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`best_item_fill`;
  DECLARE p1 int;
  DECLARE rest BIGINT DEFAULT GREATEST(IFNULL(chunk, 500), 1) * chunks;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  INSERT INTO `bc_cache`.`best_item_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  SELECT finished, id1 INTO is_done, p1 FROM `bc_cache`.`best_item_fill` WHERE one = 1;
  fill: LOOP
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SELECT s.`shop` INTO p1 FROM `app`.`items` AS s
    WHERE p1 IS NULL OR s.`shop` > p1
    ORDER BY s.`shop` LIMIT 1;
    IF is_done THEN
      UPDATE `bc_cache`.`best_item_fill` SET finished = 1 WHERE one = 1;
      LEAVE fill;
    END IF;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`best_item_due` (id1) VALUES (p1) ON DUPLICATE KEY UPDATE tries = 0;
    UPDATE `bc_cache`.`best_item_fill` SET id1 = p1, steps = steps + 1 WHERE one = 1;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

DROP PROCEDURE IF EXISTS `bc_cache`.`bc_best_item_refresh`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_best_item_refresh`(IN marks INT)
bc1_617be1a23baa15f0: BEGIN
  -- Computes up to `marks` groups that have changed. Marks of transactions that are still at work are left for the next time.
  DECLARE p1 int;
  DECLARE t1 MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
  DECLARE group_rows BIGINT;
  DECLARE rest INT DEFAULT marks;
  DECLARE is_there BOOL;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_there = FALSE;
  SET SESSION group_concat_max_len = 1048576;
  IF GET_LOCK('bc_cache.best_item refresh', 0) THEN
    work: LOOP
      SET is_there = TRUE;
      START TRANSACTION;
      SELECT id1 INTO p1 FROM `bc_cache`.`best_item_due` ORDER BY since LIMIT 1 FOR UPDATE SKIP LOCKED;
      IF NOT is_there OR rest <= 0 THEN
        COMMIT;
        LEAVE work;
      END IF;
      -- The mark goes first, under its lock, then the group is read without locks: a change that is not seen sets a new mark.
      DELETE FROM `bc_cache`.`best_item_due` WHERE id1 = p1;
      SELECT COUNT(*), CONCAT(COUNT(*), '|', IFNULL(MAX(s.`price`), ''), '|', MIN(s.`title`), '|', COUNT(DISTINCT s.`owner_id`)) INTO group_rows, t1 FROM `app`.`items` AS s
      WHERE s.`shop` = p1;
      IF group_rows = 0 THEN
        DELETE FROM `bc_cache`.`best_item` WHERE k = CONCAT('best:', p1);
      ELSE
        INSERT INTO `bc_cache`.`best_item` (k, v)
        VALUES (CONCAT('best:', p1), t1)
        ON DUPLICATE KEY UPDATE v = t1;
      END IF;
      COMMIT;
      SET rest = rest - 1;
    END LOOP;
    DO RELEASE_LOCK('bc_cache.best_item refresh');
  END IF;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_best_item_items_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_items_ad` AFTER DELETE ON `app`.`items` FOR EACH ROW
bc1_16aab0b0a284bb10: BEGIN
  -- The group is to be computed.
  INSERT INTO `bc_cache`.`best_item_due` (id1) VALUES (OLD.`shop`) ON DUPLICATE KEY UPDATE tries = 0;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_best_item_owners_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_owners_bd` BEFORE DELETE ON `app`.`owners` FOR EACH ROW
bc1_c716917ae028a418: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  INSERT INTO `bc_cache`.`best_item_due` (id1)
  SELECT DISTINCT s.`shop`
  FROM `app`.`items` AS s
  WHERE s.`owner_id` = OLD.`id`
  ON DUPLICATE KEY UPDATE tries = 0;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_best_item_tenants_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_tenants_bd` BEFORE DELETE ON `app`.`tenants` FOR EACH ROW
bc1_e78f5aa03e1e2236: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  INSERT INTO `bc_cache`.`best_item_due` (id1)
  SELECT DISTINCT s.`shop`
  FROM `app`.`items` AS s
  WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
  ON DUPLICATE KEY UPDATE tries = 0;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_best_item_items_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_items_au` AFTER UPDATE ON `app`.`items` FOR EACH ROW
bc1_2fc6a4900226c370: BEGIN
  -- Both groups are to be computed; they are mostly one.
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`price` <=> NEW.`price`
      AND CAST(OLD.`title` AS BINARY) <=> CAST(NEW.`title` AS BINARY)
      AND OLD.`owner_id` <=> NEW.`owner_id`
    ) THEN
    INSERT INTO `bc_cache`.`best_item_due` (id1) VALUES (NEW.`shop`) ON DUPLICATE KEY UPDATE tries = 0;
    INSERT INTO `bc_cache`.`best_item_due` (id1) VALUES (OLD.`shop`) ON DUPLICATE KEY UPDATE tries = 0;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_best_item_owners_bu`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_owners_bu` BEFORE UPDATE ON `app`.`owners` FOR EACH ROW
bc1_eac540233cdeae50: BEGIN
  -- By foreign key the server changes rows of app.items then, without their triggers (item_owner).
  IF NOT (OLD.`id` <=> NEW.`id`) THEN
    INSERT INTO `bc_cache`.`best_item_due` (id1)
    SELECT DISTINCT s.`shop`
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = OLD.`id`
    ON DUPLICATE KEY UPDATE tries = 0;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_best_item_items_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_best_item_items_ai` AFTER INSERT ON `app`.`items` FOR EACH ROW
bc1_116ea6c614d6928a: BEGIN
  -- The group is to be computed.
  INSERT INTO `bc_cache`.`best_item_due` (id1) VALUES (NEW.`shop`) ON DUPLICATE KEY UPDATE tries = 0;
END//
DELIMITER ;

-- Events.
DROP EVENT IF EXISTS `bc_cache`.`bc_best_item_refresh`;
DELIMITER //
CREATE EVENT `bc_cache`.`bc_best_item_refresh`
ON SCHEDULE EVERY 1 SECOND ON COMPLETION PRESERVE
COMMENT 'binlogcache: computes what is due of bc_cache.best_item'
DO
bc1_6aab03aa78ba2337: BEGIN
  CALL `bc_cache`.`bc_best_item_refresh`(1000);
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`best_item_fill`;
CALL `bc_cache`.`bc_best_item_fill`(500, NULL);
CALL `bc_cache`.`bc_best_item_refresh`(NULL);
