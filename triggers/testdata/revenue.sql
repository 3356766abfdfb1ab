-- revenue: triggers on app.payments keep bc_cache.revenue.
-- Made by: binlogcache triggers generate --spec revenue.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Cost: each change writes its group's row in the same transaction, so writers of one group wait for each other.
-- Until filling has ended the totals are too low.
-- Triggers don't see TRUNCATE, nor partitions that are dropped or exchanged: fill anew after those.
-- Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`revenue` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  `payments` BIGINT NOT NULL DEFAULT 0,
  `amount` DECIMAL(65,2) NOT NULL DEFAULT 0,
  `units` BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of revenue, 2444efb215632376';
CREATE TABLE IF NOT EXISTS `bc_cache`.`revenue_fill` (
  one TINYINT NOT NULL PRIMARY KEY,
  finished TINYINT NOT NULL DEFAULT 0,
  steps BIGINT UNSIGNED NOT NULL DEFAULT 0,
  id1 int NULL,
  id2 date NULL
) ENGINE = InnoDB COMMENT = 'binlogcache: position of filling of revenue, 196b22f723b732fc';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_revenue_fill`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_revenue_fill`(IN chunk INT, IN chunks INT)
bc1_692cd13017c88637: BEGIN
  -- Computes the totals of what is there already, group by group.
  -- `chunk` × `chunks` groups in one call (NULL: all), each in a transaction of its own. The next call goes on where the last
  -- one stopped. To begin anew:
  --   DELETE FROM `bc_cache`.`revenue_fill`;
  DECLARE p1 int;
  DECLARE p2 date;
  DECLARE t1 BIGINT;
  DECLARE t2 DECIMAL(65,2);
  DECLARE t3 BIGINT;
  DECLARE rest BIGINT DEFAULT GREATEST(IFNULL(chunk, 500), 1) * chunks;
  DECLARE is_done INT DEFAULT 0;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
  INSERT INTO `bc_cache`.`revenue_fill` (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
  SELECT finished, id1, id2 INTO is_done, p1, p2 FROM `bc_cache`.`revenue_fill` WHERE one = 1;
  fill: LOOP
    IF is_done OR rest <= 0 THEN
      LEAVE fill;
    END IF;
    SELECT s.`shop`, s.`day` INTO p1, p2 FROM `app`.`payments` AS s
    WHERE p1 IS NULL OR s.`shop` > p1 OR s.`shop` = p1 AND s.`day` > p2
    ORDER BY s.`shop`, s.`day` LIMIT 1;
    IF is_done THEN
      UPDATE `bc_cache`.`revenue_fill` SET finished = 1 WHERE one = 1;
      LEAVE fill;
    END IF;
    START TRANSACTION;
    -- The lock on the cache row comes first: who changes the group at the same time is either seen below, or waits for the lock.
    INSERT INTO `bc_cache`.`revenue` (k) VALUES (CONCAT('rev:', p1, ':', CAST(p2 AS CHAR))) ON DUPLICATE KEY UPDATE k = k;
    SELECT COUNT(*), COALESCE(SUM(s.`amount`), 0), COALESCE(SUM(s.`units`), 0) INTO t1, t2, t3 FROM `app`.`payments` AS s
    WHERE s.`shop` = p1 AND s.`day` = p2 AND (s.`void` = 0) IS TRUE;
    IF t1 = 0 THEN
      DELETE FROM `bc_cache`.`revenue` WHERE k = CONCAT('rev:', p1, ':', CAST(p2 AS CHAR));
    ELSE
      UPDATE `bc_cache`.`revenue` SET `payments` = t1, `amount` = t2, `units` = t3 WHERE k = CONCAT('rev:', p1, ':', CAST(p2 AS CHAR));
    END IF;
    UPDATE `bc_cache`.`revenue_fill` SET id1 = p1, id2 = p2, steps = steps + 1 WHERE one = 1;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
END//
DELIMITER ;

-- Triggers.
DROP TRIGGER IF EXISTS `app`.`bc_revenue_payments_ad`;
DELIMITER //
CREATE TRIGGER `app`.`bc_revenue_payments_ad` AFTER DELETE ON `app`.`payments` FOR EACH ROW
bc1_ab0cd0fc63e211a1: BEGIN
  -- The group loses a row; with the last one it goes.
  IF (OLD.`void` = 0) IS TRUE THEN
    UPDATE `bc_cache`.`revenue` SET `payments` = `payments` - 1, `amount` = `amount` - COALESCE(OLD.`amount`, 0), `units` = `units` - OLD.`units` WHERE k = CONCAT('rev:', OLD.`shop`, ':', CAST(OLD.`day` AS CHAR));
    DELETE FROM `bc_cache`.`revenue` WHERE k = CONCAT('rev:', OLD.`shop`, ':', CAST(OLD.`day` AS CHAR)) AND `payments` <= 0;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_revenue_payments_au`;
DELIMITER //
CREATE TRIGGER `app`.`bc_revenue_payments_au` AFTER UPDATE ON `app`.`payments` FOR EACH ROW
bc1_a4546b3d08746a19: BEGIN
  -- The row's new values come in, then its old ones go out, be it in one group or in two.
  IF NOT (
      OLD.`shop` <=> NEW.`shop`
      AND OLD.`day` <=> NEW.`day`
      AND OLD.`void` <=> NEW.`void`
      AND OLD.`amount` <=> NEW.`amount`
      AND OLD.`units` <=> NEW.`units`
    ) THEN
    IF (NEW.`void` = 0) IS TRUE THEN
      INSERT INTO `bc_cache`.`revenue` (k, `payments`, `amount`, `units`)
      VALUES (CONCAT('rev:', NEW.`shop`, ':', CAST(NEW.`day` AS CHAR)), 1, COALESCE(NEW.`amount`, 0), NEW.`units`)
      ON DUPLICATE KEY UPDATE `payments` = `payments` + 1, `amount` = `amount` + COALESCE(NEW.`amount`, 0), `units` = `units` + NEW.`units`;
    END IF;
    IF (OLD.`void` = 0) IS TRUE THEN
      UPDATE `bc_cache`.`revenue` SET `payments` = `payments` - 1, `amount` = `amount` - COALESCE(OLD.`amount`, 0), `units` = `units` - OLD.`units` WHERE k = CONCAT('rev:', OLD.`shop`, ':', CAST(OLD.`day` AS CHAR));
      DELETE FROM `bc_cache`.`revenue` WHERE k = CONCAT('rev:', OLD.`shop`, ':', CAST(OLD.`day` AS CHAR)) AND `payments` <= 0;
    END IF;
  END IF;
END//
DELIMITER ;

DROP TRIGGER IF EXISTS `app`.`bc_revenue_payments_ai`;
DELIMITER //
CREATE TRIGGER `app`.`bc_revenue_payments_ai` AFTER INSERT ON `app`.`payments` FOR EACH ROW
bc1_0f44548bcb3053b2: BEGIN
  -- The group gains a row.
  IF (NEW.`void` = 0) IS TRUE THEN
    INSERT INTO `bc_cache`.`revenue` (k, `payments`, `amount`, `units`)
    VALUES (CONCAT('rev:', NEW.`shop`, ':', CAST(NEW.`day` AS CHAR)), 1, COALESCE(NEW.`amount`, 0), NEW.`units`)
    ON DUPLICATE KEY UPDATE `payments` = `payments` + 1, `amount` = `amount` + COALESCE(NEW.`amount`, 0), `units` = `units` + NEW.`units`;
  END IF;
END//
DELIMITER ;

-- Events.
DROP EVENT IF EXISTS `bc_cache`.`bc_revenue_recount`;
DELIMITER //
CREATE EVENT `bc_cache`.`bc_revenue_recount`
ON SCHEDULE EVERY 1 DAY ON COMPLETION PRESERVE
COMMENT 'binlogcache: computes the totals of bc_cache.revenue anew'
DO
bc1_f607bb5cbde4bbfb: BEGIN
  -- Differences drift when rows change without triggers: cascades of foreign keys, TRUNCATE.
  DELETE FROM `bc_cache`.`revenue_fill`;
  CALL `bc_cache`.`bc_revenue_fill`(1000, NULL);
END//
DELIMITER ;

-- What is there already.
DELETE FROM `bc_cache`.`revenue_fill`;
CALL `bc_cache`.`bc_revenue_fill`(500, NULL);
