-- leaderboard: an event computes bc_cache.leaderboard every 1 HOUR.
-- Made by: binlogcache triggers generate --spec leaderboard.yaml
-- For MySQL 8.0 and later and MariaDB 10.6 and later; install it with their command-line client. Twice does no harm.
-- Events need event_scheduler = ON (MariaDB: OFF by default). On a replica they are off; after a fail-over: ALTER EVENT ... ENABLE.

SET NAMES utf8mb4 COLLATE utf8mb4_bin;
SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION';
SET SESSION lock_wait_timeout = 5;
CREATE DATABASE IF NOT EXISTS `bc_cache`;

-- What is read, and what the procedures remember.
CREATE TABLE IF NOT EXISTS `bc_cache`.`leaderboard` (
  k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
  v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
) ENGINE = InnoDB COMMENT = 'binlogcache: cache table of leaderboard, 35a6c44223d38be0';

-- Procedures that fill and refresh.
DROP PROCEDURE IF EXISTS `bc_cache`.`bc_leaderboard_refresh`;
DELIMITER //
CREATE PROCEDURE `bc_cache`.`bc_leaderboard_refresh`()
bc1_967b1e98e72117e3: BEGIN
  -- Runs the query and puts what has changed into the cache table, in one transaction. The query reads without locks.
  IF GET_LOCK('bc_cache.leaderboard refresh', 0) THEN
    DROP TEMPORARY TABLE IF EXISTS `bc_cache`.`leaderboard_new`;
    CREATE TEMPORARY TABLE `bc_cache`.`leaderboard_new` (
      k VARCHAR(250) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
      v MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
    ) ENGINE = InnoDB;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    INSERT INTO `bc_cache`.`leaderboard_new` (k, v)
    SELECT q.k, q.v FROM (
      SELECT CONCAT('top:', r.game_id, ':', r.place) AS k,
             CONCAT(r.user_id, '|', r.points) AS v
      FROM (
        SELECT game_id, user_id, SUM(points) AS points,
               ROW_NUMBER() OVER (PARTITION BY game_id ORDER BY SUM(points) DESC, user_id) AS place
        FROM app.scores
        GROUP BY game_id, user_id
      ) AS r
      WHERE r.place <= 10
    ) AS q;
    START TRANSACTION;
    DELETE c FROM `bc_cache`.`leaderboard` AS c LEFT JOIN `bc_cache`.`leaderboard_new` AS d ON d.k = c.k WHERE d.k IS NULL;
    INSERT INTO `bc_cache`.`leaderboard` (k, v)
    SELECT d.k, d.v FROM `bc_cache`.`leaderboard_new` AS d
    ON DUPLICATE KEY UPDATE v = d.v;
    COMMIT;
    DROP TEMPORARY TABLE `bc_cache`.`leaderboard_new`;
    DO RELEASE_LOCK('bc_cache.leaderboard refresh');
  END IF;
END//
DELIMITER ;

-- Events.
DROP EVENT IF EXISTS `bc_cache`.`bc_leaderboard_refresh`;
DELIMITER //
CREATE EVENT `bc_cache`.`bc_leaderboard_refresh`
ON SCHEDULE EVERY 1 HOUR ON COMPLETION PRESERVE
COMMENT 'binlogcache: computes bc_cache.leaderboard'
DO
bc1_857646fd71c163a4: BEGIN
  CALL `bc_cache`.`bc_leaderboard_refresh`();
END//
DELIMITER ;

-- What is there already.
CALL `bc_cache`.`bc_leaderboard_refresh`();
