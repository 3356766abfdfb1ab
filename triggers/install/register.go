package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/triggers"
)

// ContainerYAML is the entry of a configuration file of binlogcache that maps memcached keys to the cache table.
func ContainerYAML(d *triggers.Design) string {
	c := d.Container()
	var b strings.Builder
	fmt.Fprintf(&b, "containers:\n  - name: %s\n    schema: %q\n    table: %q\n    key_columns: k\n    value_columns: [%s]\n",
		c.Name, c.Table.Schema, c.Table.Table, strings.Join(c.ValueColumns, ", "))
	for _, o := range []struct{ key, column string }{{"flags_column", c.Flags}, {"cas_column", c.CAS}, {"expiry_column", c.Expiration}} {
		if o.column != "" {
			fmt.Fprintf(&b, "    %s: %s\n", o.key, o.column)
		}
	}
	return b.String()
}

// The tables of the InnoDB memcached plugin, with its column names and defaults. They are made where a server has none.
var containerTables = []string{
	"CREATE DATABASE IF NOT EXISTS innodb_memcache",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL," +
		" db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0'," +
		" cas_column VARCHAR(250), expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE = InnoDB",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.cache_policies (policy_name VARCHAR(40) NOT NULL PRIMARY KEY," +
		" get_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, set_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL," +
		" delete_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, flush_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL) ENGINE = InnoDB",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) ENGINE = InnoDB",
	"INSERT IGNORE INTO innodb_memcache.cache_policies SELECT 'cache_policy', 'innodb_only', 'innodb_only', 'innodb_only', 'innodb_only' FROM DUAL" +
		" WHERE NOT EXISTS (SELECT 1 FROM innodb_memcache.cache_policies)",
	"INSERT IGNORE INTO innodb_memcache.config_options VALUES ('separator', '|'), ('table_map_delimiter', '.')",
}

// Register writes the row of innodb_memcache.containers that maps keys to the cache table. A running binlogcache reads it
// at once. A container of the same name over another table is an error.
func (s *Session) Register(ctx context.Context, d *triggers.Design) error {
	c := d.Container()
	if !c.PluginTypes && len(c.ValueColumns) > 1 {
		return errors.New("sums of decimals among several values can't stand in innodb_memcache.containers: register with yaml")
	}
	for _, st := range containerTables {
		if err := s.exec(ctx, st); err != nil {
			return fmt.Errorf("prepare innodb_memcache: %w", err)
		}
	}
	var schemaName, table string
	err := s.one(ctx, "SELECT db_schema, db_table FROM innodb_memcache.containers WHERE name = ?", []any{c.Name}, &schemaName, &table)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	if err == nil && (schemaName != c.Table.Schema || table != c.Table.Table) {
		return fmt.Errorf("innodb_memcache.containers has a container %s already, over %s.%s: change name in the spec, or delete that row", c.Name, schemaName, table)
	}
	column := func(name string) string {
		if name == "" {
			return "0"
		}
		return name
	}
	err = s.exec(ctx, "REPLACE INTO innodb_memcache.containers (name, db_schema, db_table, key_columns, value_columns, flags, cas_column, expire_time_column,"+
		" unique_idx_name_on_key) VALUES (?, ?, ?, 'k', ?, ?, ?, ?, 'PRIMARY')", c.Name, c.Table.Schema, c.Table.Table,
		strings.Join(c.ValueColumns, ","), column(c.Flags), column(c.CAS), column(c.Expiration))
	if err != nil {
		return err
	}
	// A running binlogcache reads the containers again when it sees a change of their definition in the log.
	return s.exec(ctx, "ALTER TABLE innodb_memcache.containers COMMENT = 'containers of memcached clients'")
}

// Unregister removes the container's row, where it is about this cache table.
func (s *Session) Unregister(ctx context.Context, spec *triggers.Spec) (bool, error) {
	res, err := s.conn.ExecContext(ctx, "DELETE FROM innodb_memcache.containers WHERE name = ? AND db_schema = ? AND db_table = ?",
		spec.Name, spec.Cache.Schema, spec.Cache.Table)
	if absent(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
