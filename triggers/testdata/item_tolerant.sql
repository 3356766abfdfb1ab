-- item_tolerant: triggers on app.items keep bc_cache.item_tolerant.
-- Made by: binlogcache triggers generate --spec item_tolerant.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change of a cached row writes one more row, in the same transaction.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.
-- Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_tolerant` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of item_tolerant, a5c1bf7f6e0ee785';
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_tolerant_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL,
  id2 int NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of item_tolerant, d68213524af16798';
CREATE TABLE IF NOT EXISTS `bc_cache`.`item_tolerant_due` (
  id1 int NOT NULL,
  id2 int NOT NULL,
  since TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6),
  tries INT NOT NULL DEFAULT 0,
  PRIMARY KEY (id1, id2),
  KEY since (since)
) ENGINE = InnoDB COMMENT = 'binlogcache: marks of item_tolerant, 6aa65b9dd0f5cb52';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_item_tolerant_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_item_tolerant_fill`(IN chunk INT, IN chunks INT)
bc1_86fd45f9c5777f55: BEGIN
  -- Copies what is there already: `chunk` rows at a time in key order, each chunk in a transaction of its own, `chunks`
  -- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`item_tolerant_fill`;
  -- Rows are marked only: one that can't be computed must not hold up the others.
  DECLARE lo1 int;
  DECLARE lo2 int;
  DECLARE hi1 int;
  DECLARE hi2 int;
  DECLARE rest INT DEFAULT chunks;
  DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
  INSERT INTO `bc_cache`.`item_tolerant_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  fill: LOOP
    SELECT finished, id1, id2 INTO is_done, lo1, lo2 FROM `bc_cache`.`item_tolerant_fill` WHERE one = 1;
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SET hi1 = NULL, hi2 = NULL;
    SELECT s.`shop`, s.`no` INTO hi1, hi2 FROM `app`.`items` AS s
    WHERE lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2
    ORDER BY s.`shop`, s.`no` LIMIT skip, 1;
    START TRANSACTION;
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2)
    SELECT DISTINCT s.`shop`, s.`no`
    FROM `app`.`items` AS s
    WHERE (lo1 IS NULL OR s.`shop` > lo1 OR s.`shop` = lo1 AND s.`no` > lo2) AND (hi1 IS NULL OR s.`shop` < hi1 OR s.`shop` = hi1 AND s.`no` <= hi2)
    ON DUPLICATE KEY UPDATE tries = 0;
    IF hi1 IS NULL THEN
      UPDATE `bc_cache`.`item_tolerant_fill` SET finished = 1, steps = steps + 1 WHERE one = 1;
    ELSE
      UPDATE `bc_cache`.`item_tolerant_fill` SET id1 = hi1, id2 = hi2, steps = steps + 1 WHERE one = 1;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

DROP PROCEDURE IF EXISTS `bc_cache`.`bc_item_tolerant_refresh`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_item_tolerant_refresh`(IN marks INT)
bc1_44fd17d5c352c7c1: BEGIN
  -- Computes up to `marks` rows that could not be written before. A row that fails again goes to the end of the list.
  DECLARE p1 int;
  DECLARE p2 int;
  DECLARE rest INT DEFAULT marks;
  DECLARE is_there BOOL;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_there = FALSE;
  IF GET_LOCK('bc_cache.item_tolerant refresh', 0) THEN
    work: LOOP
      SET is_there = TRUE;
      SELECT id1, id2 INTO p1, p2 FROM `bc_cache`.`item_tolerant_due` ORDER BY tries, since LIMIT 1;
      IF NOT is_there OR rest <= 0 THEN
        LEAVE work;
      END IF;
      BEGIN
        DECLARE EXIT HANDLER FOR SQLEXCEPTION
        BEGIN
          ROLLBACK;
          UPDATE `bc_cache`.`item_tolerant_due` SET tries = tries + 1 WHERE id1 = p1 AND id2 = p2;
        END;
        START TRANSACTION;
        INSERT INTO `bc_cache`.`item_tolerant` (k, v)
        SELECT d.k, d.v FROM (
          SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, CAST(s.`title` AS SIGNED) AS v
          FROM `app`.`items` AS s
          WHERE s.`shop` = p1 AND s.`no` = p2
          LOCK IN SHARE MODE
        ) AS d
        ON DUPLICATE KEY UPDATE v = d.v;
        DELETE FROM `bc_cache`.`item_tolerant_due` WHERE id1 = p1 AND id2 = p2;
        COMMIT;
      END;
      SET rest = rest - 1;
    END LOOP;
    DO RELEASE_LOCK('bc_cache.item_tolerant refresh');
  END IF;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_items_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_items_ad` AFTER DELETE ON `app`.`items` FOR EACH ROW
bc1_02acc4c8b4fb824f: BEGIN
  -- The row has gone.
  DELETE FROM `bc_cache`.`item_tolerant` WHERE k = CONCAT(OLD.`shop`, ':', OLD.`no`);
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_owners_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_owners_bd` BEFORE DELETE ON `app`.`owners` FOR EACH ROW
bc1_3f1947b745bea315: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes them again.
    DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      WHERE s.`owner_id` = OLD.`id`
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2)
    SELECT DISTINCT s.`shop`, s.`no`
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = OLD.`id`
    ON DUPLICATE KEY UPDATE tries = 0;
  END;
  DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = OLD.`id`
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_tenants_bd`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_tenants_bd` BEFORE DELETE ON `app`.`tenants` FOR EACH ROW
bc1_0b2bdfc68cea7bdd: BEGIN
  -- By foreign key the server changes or deletes rows of app.items then, without their triggers (item_owner).
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes them again.
    DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2)
    SELECT DISTINCT s.`shop`, s.`no`
    FROM `app`.`items` AS s
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
    ON DUPLICATE KEY UPDATE tries = 0;
  END;
  DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
    FROM `app`.`items` AS s
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = OLD.`id`)
    LOCK IN SHARE MODE
  ) AS d ON d.k = c.k;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_items_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_items_au` AFTER UPDATE ON `app`.`items` FOR EACH ROW
bc1_a6005eb4c0963642: BEGIN
  -- Another key: the old one goes.
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes it again.
    DELETE FROM `bc_cache`.`item_tolerant` WHERE k = CONCAT(NEW.`shop`, ':', NEW.`no`);
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2) VALUES (NEW.`shop`, NEW.`no`) ON DUPLICATE KEY UPDATE tries = 0;
  END;
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`no` <=> NEW.`no`
    ) THEN
    DELETE FROM `bc_cache`.`item_tolerant` WHERE k = CONCAT(OLD.`shop`, ':', OLD.`no`);
  END IF;
  -- Something that is stored has changed.
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`no` <=> NEW.`no`
      AND CAST(OLD.`title` AS BINARY) <=> CAST(NEW.`title` AS BINARY)
    ) THEN
    INSERT INTO `bc_cache`.`item_tolerant` (k, v)
    VALUES (CONCAT(NEW.`shop`, ':', NEW.`no`),
            CAST(NEW.`title` AS SIGNED))
    ON DUPLICATE KEY UPDATE
      v = CAST(NEW.`title` AS SIGNED);
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_items_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_items_ai` AFTER INSERT ON `app`.`items` FOR EACH ROW
bc1_60eb2208519fa3a4: BEGIN
  -- A new row.
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes it again.
    DELETE FROM `bc_cache`.`item_tolerant` WHERE k = CONCAT(NEW.`shop`, ':', NEW.`no`);
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2) VALUES (NEW.`shop`, NEW.`no`) ON DUPLICATE KEY UPDATE tries = 0;
  END;
  INSERT INTO `bc_cache`.`item_tolerant` (k, v)
  VALUES (CONCAT(NEW.`shop`, ':', NEW.`no`),
          CAST(NEW.`title` AS SIGNED))
  ON DUPLICATE KEY UPDATE
    v = CAST(NEW.`title` AS SIGNED);
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_owners_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_owners_ai` AFTER INSERT ON `app`.`owners` FOR EACH ROW
bc1_864a81190ef5eb71: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes them again.
    DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      WHERE s.`owner_id` = NEW.`id`
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2)
    SELECT DISTINCT s.`shop`, s.`no`
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = NEW.`id`
    ON DUPLICATE KEY UPDATE tries = 0;
  END;
  INSERT INTO `bc_cache`.`item_tolerant` (k, v)
  SELECT d.k, d.v FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, CAST(s.`title` AS SIGNED) AS v
    FROM `app`.`items` AS s
    WHERE s.`owner_id` = NEW.`id`
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_item_tolerant_tenants_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_item_tolerant_tenants_ai` AFTER INSERT ON `app`.`tenants` FOR EACH ROW
bc1_643dd25e550300f3: BEGIN
  -- REPLACE deletes and inserts. MySQL 9.6 and later leaves the rows of app.items as they were then.
  DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;
  DECLARE EXIT HANDLER FOR SQLEXCEPTION
  BEGIN
    -- The write goes through. No answer is better than an old one; `bc_cache`.`bc_item_tolerant_refresh` computes them again.
    DELETE c FROM `bc_cache`.`item_tolerant` AS c JOIN (
      SELECT CONCAT(s.`shop`, ':', s.`no`) AS k
      FROM `app`.`items` AS s
      WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`)
      LOCK IN SHARE MODE
    ) AS d ON d.k = c.k;
    INSERT INTO `bc_cache`.`item_tolerant_due` (id1, id2)
    SELECT DISTINCT s.`shop`, s.`no`
    FROM `app`.`items` AS s
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`)
    ON DUPLICATE KEY UPDATE tries = 0;
  END;
  INSERT INTO `bc_cache`.`item_tolerant` (k, v)
  SELECT d.k, d.v FROM (
    SELECT CONCAT(s.`shop`, ':', s.`no`) AS k, CAST(s.`title` AS SIGNED) AS v
    FROM `app`.`items` AS s
    WHERE s.`owner_id` IN (SELECT p1.`id` FROM `app`.`owners` AS p1 WHERE p1.`tenant_id` = NEW.`id`)
    LOCK IN SHARE MODE
  ) AS d
  ON DUPLICATE KEY UPDATE v = d.v;
END//
DELIMITER ;

-- Events.
DROP EVENT IF EXISTS `bc_cache`.`bc_item_tolerant_refresh`;
DELIMITER //
CREATE EVENT `bc_cache`.`bc_item_tolerant_refresh`
ON SCHEDULE EVERY 5 SECOND ON COMPLETION PRESERVE
COMMENT 'binlogcache: computes what is due of bc_cache.item_tolerant'
DO
bc1_dee0a583916a0f79: BEGIN
  CALL `bc_cache`.`bc_item_tolerant_refresh`(1000);
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`item_tolerant_fill`;
CALL `bc_cache`.`bc_item_tolerant_fill`(500, NULL);
CALL `bc_cache`.`bc_item_tolerant_refresh`(NULL);
