-- item: triggers on app.items keep bc_cache.item.
-- Made by: binlogcache triggers generate --spec item.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`item` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
  flags INT UNSIGNED NOT NULL DEFAULT 0,
  exp BIGINT NOT NULL DEFAULT 0,
  cas BIGINT UNSIGNED NOT NULL DEFAULT 0
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of item, a632eb7db532f10f';
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL,
  id2 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of item, f6a907be991f790a';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_item_fill`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` PROCEDURE `bc_cache`.`bc_item_fill`(IN chunk INT, IN chunks INT)
bc1_b59316e04dea539c: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`item_fill`;
  -- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.
  DECLARE lo1 int;
  DECLARE lo2 int;
  DECLARE hi1 int;
  DECLARE hi2 int;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`item_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1, id2 INTO is_done, lo1, lo2 FROM `bc_cache`.`item_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL, hi2 = NULL;
    SELECT s.`shop`, s.`no` INTO hi1, hi2 FROM `app`.`items` AS s
    WHERE lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2
    ORDER BY s.`shop`, s.`no` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
    SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', s.`owner_id`, 'editor', s.`editor_id`, 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
      FROM `app`.`items` AS s
      WHERE (lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2) AND (hi1 IS NULL OR s.`shop` < hi1 OR s.`shop` = hi1 AND s.`no` <= hi2) AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`item_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`item_fill` SET id1 = hi1, id2 = hi2, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_item_items_ad`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_items_ad` AFTER DELETE ON `app`.`items` FOR EACH ROW
bc1_ff3ffe48dae38997: BEGIN
  -- The row has gone.
  IF (OLD.`qty` > 0 AND OLD.`title` <> 'hidden') IS TRUE THEN
    DELETE FROM `bc_cache`.`item` WHERE k = CONCAT(OLD.`shop`, ':', OLD.`no`);
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_owners_bd`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_owners_bd` BEFORE DELETE ON `app`.`owners` FOR EACH ROW
bc1_05a084d3cfd73fbd: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_editor, item_owner).
  INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
  SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', s.`owner_id`, 'editor', NULL, 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
    FROM `app`.`items` AS s
    WHERE s.`editor_id` = OLD.`id` AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
  DELETE c FROM `bc_cache`.`item` AS c JOIN (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = OLD.`id`
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tenants_bd`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_tenants_bd` BEFORE DELETE ON `app`.`tenants` FOR EACH ROW
bc1_660e40fe7d2cda0a: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_editor, item_owner).
  INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
  SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', s.`owner_id`, 'editor', NULL, 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
    FROM `app`.`items` AS s
    WHERE s.`editor_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`) AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
  DELETE c FROM `bc_cache`.`item` AS c JOIN (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_items_au`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_items_au` AFTER UPDATE ON `app`.`items` FOR EACH ROW
bc1_e76b192d4d298a9c: BEGIN
  -- Not wanted any more, or another key: the old one goes.
  IF (OLD.`qty` > 0 AND OLD.`title` <> 'hidden') IS TRUE AND NOT ((NEW.`qty` > 0 AND NEW.`title` <> 'hidden') IS TRUE AND OLD.`shop` <=> NEW.`shop` AND OLD.`no` <=> NEW.`no`) THEN
    DELETE FROM `bc_cache`.`item` WHERE k = CONCAT(OLD.`shop`, ':', OLD.`no`);
  END IF;
  -- Something that is stored has changed.
  IF (NEW.`qty` > 0 AND NEW.`title` <> 'hidden') IS TRUE AND NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`no` <=> NEW.`no`
      AND OLD.`qty` <=> NEW.`qty`
      AND CAST(OLD.`title` AS BINARY) <=> CAST(NEW.`title` AS BINARY)
      AND OLD.`owner_id` <=> NEW.`owner_id`
      AND OLD.`editor_id` <=> NEW.`editor_id`
      AND OLD.`born` <=> NEW.`born`
      AND CAST(OLD.`meta` AS BINARY) <=> CAST(NEW.`meta` AS BINARY)
      AND OLD.`raw` <=> NEW.`raw`
      AND OLD.`price` <=> NEW.`price`
    ) THEN
    INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
    VALUES (CONCAT(NEW.`shop`, ':', NEW.`no`),
            JSON_OBJECT('owner', NEW.`owner_id`, 'editor', NEW.`editor_id`, 'title', NEW.`title`, 'born', CAST(NEW.`born` AS CHAR), 'meta', JSON_EXTRACT(NEW.`meta`, '$'), 'raw', HEX(NEW.`raw`), 'price', NEW.`price`),
            7,
            UNIX_TIMESTAMP() + 3600,
            UUID_SHORT())
    ON DUPLICATE KEY UPDATE
      v = JSON_OBJECT('owner', NEW.`owner_id`, 'editor', NEW.`editor_id`, 'title', NEW.`title`, 'born', CAST(NEW.`born` AS CHAR), 'meta', JSON_EXTRACT(NEW.`meta`, '$'), 'raw', HEX(NEW.`raw`), 'price', NEW.`price`),
      flags = 7,
      exp = UNIX_TIMESTAMP() + 3600,
      cas = UUID_SHORT();
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_owners_bu`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_owners_bu` BEFORE UPDATE ON `app`.`owners` FOR EACH ROW
bc1_92cddedf9d22a563: BEGIN
  -- By foreign key the server changes rows of app.items then, without their triggers (item_editor, item_owner).
  IF NOT (OLD.`id` <=> NEW.`id`) THEN
    INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
    SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', IF(s.`owner_id` = OLD.`id`, NEW.`id`, s.`owner_id`), 'editor', IF(s.`editor_id` = OLD.`id`, NEW.`id`, s.`editor_id`), 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
      FROM `app`.`items` AS s
      WHERE (s.`editor_id` = OLD.`id` OR s.`owner_id` = OLD.`id`) AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
      LOCK IN SHARE MODE
    ) AS d
    ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_items_ai`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_items_ai` AFTER INSERT ON `app`.`items` FOR EACH ROW
bc1_acd359fd674ab903: BEGIN
  -- A new row.
  IF (NEW.`qty` > 0 AND NEW.`title` <> 'hidden') IS TRUE THEN
    INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
    VALUES (CONCAT(NEW.`shop`, ':', NEW.`no`),
            JSON_OBJECT('owner', NEW.`owner_id`, 'editor', NEW.`editor_id`, 'title', NEW.`title`, 'born', CAST(NEW.`born` AS CHAR), 'meta', JSON_EXTRACT(NEW.`meta`, '$'), 'raw', HEX(NEW.`raw`), 'price', NEW.`price`),
            7,
            UNIX_TIMESTAMP() + 3600,
            UUID_SHORT())
    ON DUPLICATE KEY UPDATE
      v = JSON_OBJECT('owner', NEW.`owner_id`, 'editor', NEW.`editor_id`, 'title', NEW.`title`, 'born', CAST(NEW.`born` AS CHAR), 'meta', JSON_EXTRACT(NEW.`meta`, '$'), 'raw', HEX(NEW.`raw`), 'price', NEW.`price`),
      flags = 7,
      exp = UNIX_TIMESTAMP() + 3600,
      cas = UUID_SHORT();
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_owners_ai`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_owners_ai` AFTER INSERT ON `app`.`owners` FOR EACH ROW
bc1_d1e787bfbfcf12ac: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
  SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', s.`owner_id`, 'editor', s.`editor_id`, 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
    FROM `app`.`items` AS s
    WHERE (s.`editor_id` = NEW.`id` OR s.`owner_id` = NEW.`id`) AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tenants_ai`;
DELIMITER //
CREATE DEFINER = `root`@`localhost` TRIGGER `app`.`bc_item_tenants_ai` AFTER INSERT ON `app`.`tenants` FOR EACH ROW
bc1_878fd37b62613858: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  INSERT INTO `bc_cache`.`item` (k, v, flags, exp, cas)
  SELECT d.k, d.v, d.flags, d.exp, UUID_SHORT() FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, JSON_OBJECT('owner', s.`owner_id`, 'editor', s.`editor_id`, 'title', s.`title`, 'born', CAST(s.`born` AS CHAR), 'meta', JSON_EXTRACT(s.`meta`, '$'), 'raw', HEX(s.`raw`), 'price', s.`price`) AS v, 7 AS flags, UNIX_TIMESTAMP() + 3600 AS exp
    FROM `app`.`items` AS s
    WHERE (s.`editor_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`) OR s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`)) AND (s.`qty` > 0 AND s.`title` <> 'hidden') IS TRUE
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v, flags = d.flags, exp = d.exp, cas = UUID_SHORT();
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`item_fill`;
CALL `bc_cache`.`bc_item_fill`(500, NULL);
