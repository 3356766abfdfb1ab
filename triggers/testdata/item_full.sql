-- item_full: triggers on app.items keep bc_cache.item_full.
-- Made by: binlogcache triggers generate --spec item_full.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: a change of a row of app.kinds writes the cache rows of all rows of app.items that point to it, in the same transaction.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_full` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  cas BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of item_full, 8940e958d12ada5c';
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_full_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL,
  id2 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of item_full, 0d57e8a707a293d3';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_item_full_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_item_full_fill`(IN chunk INT, IN chunks INT)
bc1_ab0269bc02d281ef: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`item_full_fill`;
  -- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.
  DECLARE lo1 int;
  DECLARE lo2 int;
  DECLARE hi1 int;
  DECLARE hi2 int;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`item_full_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1, id2 INTO is_done, lo1, lo2 FROM `bc_cache`.`item_full_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL, hi2 = NULL;
    SELECT s.`shop`, s.`no` INTO hi1, hi2 FROM `app`.`items` AS s
    WHERE lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2
    ORDER BY s.`shop`, s.`no` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`item_full` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
      FROM `app`.`items` AS s
      LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
      WHERE (lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2) AND (hi1 IS NULL OR s.`shop` < hi1 OR s.`shop` = hi1 AND s.`no` <= hi2) AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`item_full_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`item_full_fill` SET id1 = hi1, id2 = hi2, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_item_full_items_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_items_ad` AFTER DELETE ON `app`.`items` FOR EACH ROW
bc1_bff7d5ad6fc7007e: BEGIN
  -- The row has gone.
  DELETE FROM `bc_cache`.`item_full` WHERE k = CONCAT('item:', OLD.`shop`, ':', OLD.`no`);
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_kinds_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_kinds_ad` AFTER DELETE ON `app`.`kinds` FOR EACH ROW
bc1_bf76e710e68882dc: BEGIN
  -- The rows of app.items that point here lose their partner.
  DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`kind` = OLD.`code` AND NOT ((kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL)
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
  INSERT INTO `bc_cache`.`item_full` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`kind` = OLD.`code` AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_owners_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_owners_bd` BEFORE DELETE ON `app`.`owners` FOR EACH ROW
bc1_7f8dd15b97907bf0: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`owner_id` = OLD.`id`
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_tenants_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_tenants_bd` BEFORE DELETE ON `app`.`tenants` FOR EACH ROW
bc1_039c2642f59e0274: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_items_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_items_au` AFTER UPDATE ON `app`.`items` FOR EACH ROW
bc1_fa7a156f5cf57423: BEGIN
  -- Another key: the old one goes.
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`no` <=> NEW.`no`
    ) THEN
    DELETE FROM `bc_cache`.`item_full` WHERE k = CONCAT('item:', OLD.`shop`, ':', OLD.`no`);
  END IF;
  -- Something that is stored has changed.
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`no` <=> NEW.`no`
      AND OLD.`qty` <=> NEW.`qty`
      AND CAST(OLD.`title` AS BINARY) <=> CAST(NEW.`title` AS BINARY)
      AND OLD.`price` <=> NEW.`price`
      AND CAST(OLD.`kind` AS BINARY) <=> CAST(NEW.`kind` AS BINARY)
    ) THEN
    DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
      SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
      WHERE s.`shop` = NEW.`shop` AND s.`no` = NEW.`no` AND NOT ((kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL)
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_full` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
      FROM `app`.`items` AS s
      LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
      WHERE s.`shop` = NEW.`shop` AND s.`no` = NEW.`no` AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_kinds_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_kinds_au` AFTER UPDATE ON `app`.`kinds` FOR EACH ROW
bc1_ef0825c38c8ac4c5: BEGIN
  -- Something that is stored has changed, for the rows of app.items that point here.
  IF NOT (
      OLD.`active` <=> NEW.`active`
      AND CAST(OLD.`label` AS BINARY) <=> CAST(NEW.`label` AS BINARY)
      AND CAST(OLD.`code` AS BINARY) <=> CAST(NEW.`code` AS BINARY)
    ) THEN
    DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
      SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
      WHERE s.`kind` IN (OLD.`code`, NEW.`code`) AND NOT ((kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL)
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_full` (k, v, cas)
    SELECT d.k, d.v, 1 FROM (
      SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
      FROM `app`.`items` AS s
      LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
      WHERE s.`kind` IN (OLD.`code`, NEW.`code`) AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_items_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_items_ai` AFTER INSERT ON `app`.`items` FOR EACH ROW
bc1_ecb7b79549abfa1c: BEGIN
  -- A new row, with what it points to.
  INSERT INTO `bc_cache`.`item_full` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`shop` = NEW.`shop` AND s.`no` = NEW.`no` AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_kinds_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_kinds_ai` AFTER INSERT ON `app`.`kinds` FOR EACH ROW
bc1_1560741c313d3b53: BEGIN
  -- The rows of app.items that point here get their partner.
  DELETE c FROM `bc_cache`.`item_full` AS c JOIN (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`kind` = NEW.`code` AND NOT ((kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL)
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
  INSERT INTO `bc_cache`.`item_full` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`kind` = NEW.`code` AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_owners_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_owners_ai` AFTER INSERT ON `app`.`owners` FOR EACH ROW
bc1_d7af8e9daab667d2: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  INSERT INTO `bc_cache`.`item_full` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`owner_id` = NEW.`id` AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_full_tenants_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_full_tenants_ai` AFTER INSERT ON `app`.`tenants` FOR EACH ROW
bc1_4f20e5adbac6a93d: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  INSERT INTO `bc_cache`.`item_full` (k, v, cas)
  SELECT d.k, d.v, 1 FROM (
    SELECT CONCAT('item:', s.`shop`, ':', s.`no`) AS k, CONCAT(REPLACE(REPLACE(s.`title`, '\\', '\\\\'), ';', '\\;'), ';', REPLACE(REPLACE(IFNULL(kind.`label`, ''), '\\', '\\\\'), ';', '\\;'), ';', IFNULL(s.`price`, ''), ';', REPLACE(REPLACE(IFNULL(UPPER(s.`title`), ''), '\\', '\\\\'), ';', '\\;')) AS v
    FROM `app`.`items` AS s
    LEFT JOIN `app`.`kinds` AS kind ON kind.`code` = s.`kind`
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`) AND (kind.`active` = 1 AND s.`qty` >= 0) IS TRUE AND kind.`code` IS NOT NULL
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, cas = `item_full`.cas + 1;
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`item_full_fill`;
CALL `bc_cache`.`bc_item_full_fill`(500, NULL);
