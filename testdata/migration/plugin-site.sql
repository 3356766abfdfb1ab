-- A site of the InnoDB memcached plugin as its manual describes it: the schema of its set-up script with the demo table,
-- the container over several columns, and the one that is called default. For trying docs/MIGRATION.md, and for tests.
CREATE DATABASE innodb_memcache;
USE innodb_memcache;
CREATE TABLE cache_policies (
  policy_name VARCHAR(40) PRIMARY KEY,
  get_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
  set_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
  delete_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL,
  flush_policy ENUM('innodb_only', 'cache_only', 'caching', 'disabled') NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = latin1;
CREATE TABLE containers (
  name VARCHAR(50) NOT NULL PRIMARY KEY,
  db_schema VARCHAR(250) NOT NULL,
  db_table VARCHAR(250) NOT NULL,
  key_columns VARCHAR(250) NOT NULL,
  value_columns VARCHAR(250),
  flags VARCHAR(250) NOT NULL DEFAULT '0',
  cas_column VARCHAR(250),
  expire_time_column VARCHAR(250),
  unique_idx_name_on_key VARCHAR(250) NOT NULL
) ENGINE = InnoDB DEFAULT CHARSET = latin1;
CREATE TABLE config_options (
  name VARCHAR(50) NOT NULL PRIMARY KEY,
  value VARCHAR(50)
) ENGINE = InnoDB DEFAULT CHARSET = latin1;
INSERT INTO cache_policies VALUES ('cache_policy', 'innodb_only', 'innodb_only', 'innodb_only', 'innodb_only');
INSERT INTO config_options VALUES ('separator', '|'), ('table_map_delimiter', '.');
INSERT INTO containers VALUES
  ('aaa', 'test', 'demo_test', 'c1', 'c2', 'c3', 'c4', 'c5', 'PRIMARY'),
  ('bbb', 'test', 'multicol', 'country', 'population,area_sq_km,drive_side', 'c3', 'c4', 'c5', 'PRIMARY'),
  ('default', 'test', 'city', 'city_id', 'name|state|country', 'flags', 'cas', 'expiry', 'PRIMARY');

CREATE DATABASE IF NOT EXISTS test;
USE test;
CREATE TABLE demo_test (
  c1 VARCHAR(32), c2 VARCHAR(1024), c3 INT, c4 BIGINT UNSIGNED, c5 INT, PRIMARY KEY (c1)
) ENGINE = InnoDB;
INSERT INTO demo_test VALUES ('AA', 'HELLO, HELLO', 8, 0, 0);
CREATE TABLE multicol (
  country VARCHAR(128) NOT NULL DEFAULT '', population VARCHAR(10), area_sq_km VARCHAR(9), drive_side VARCHAR(1),
  c3 INT, c4 BIGINT UNSIGNED, c5 INT, PRIMARY KEY (country)
) ENGINE = InnoDB DEFAULT CHARSET = latin1;
INSERT INTO multicol VALUES ('UK', '63000000', '243610', 'L', 0, 0, 0), ('DE', '82000000', '357022', 'R', 0, 0, 0);
CREATE TABLE city (
  city_id VARCHAR(32), name VARCHAR(1024), state VARCHAR(2), country VARCHAR(2),
  flags INT, cas BIGINT UNSIGNED, expiry INT, founded INT, PRIMARY KEY (city_id)
) ENGINE = InnoDB;
INSERT INTO city VALUES ('1', 'BANGALORE', 'BG', 'IN', 0, 1, 0, 1537), ('2', 'CHENNAI', 'TN', 'IN', 0, 0, 0, 1639);
