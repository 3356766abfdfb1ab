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

// The tables of the InnoDB memcached plugin, with its column names and defaults. They are made where a server has none, containers last:
// where that is, all are.
var containerTables = []string{
	"CREATE DATABASE IF NOT EXISTS innodb_memcache",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.cache_policies (policy_name VARCHAR(40) NOT NULL PRIMARY KEY," +
		" get_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, set_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL," +
		" delete_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL, flush_policy ENUM('innodb_only','cache_only','caching','disabled') NOT NULL) ENGINE = InnoDB",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.config_options (name VARCHAR(50) NOT NULL PRIMARY KEY, value VARCHAR(50)) ENGINE = InnoDB",
	"INSERT IGNORE INTO innodb_memcache.cache_policies SELECT 'cache_policy', 'innodb_only', 'innodb_only', 'innodb_only', 'innodb_only' FROM DUAL" +
		" WHERE NOT EXISTS (SELECT 1 FROM innodb_memcache.cache_policies)",
	"INSERT IGNORE INTO innodb_memcache.config_options VALUES ('separator', '|'), ('table_map_delimiter', '.')",
	"CREATE TABLE IF NOT EXISTS innodb_memcache.containers (name VARCHAR(50) NOT NULL PRIMARY KEY, db_schema VARCHAR(250) NOT NULL," +
		" db_table VARCHAR(250) NOT NULL, key_columns VARCHAR(250) NOT NULL, value_columns VARCHAR(250), flags VARCHAR(250) NOT NULL DEFAULT '0'," +
		" cas_column VARCHAR(250), expire_time_column VARCHAR(250), unique_idx_name_on_key VARCHAR(250) NOT NULL) ENGINE = InnoDB",
}

// containerGrant mends a missing right on the plugin's tables.
func (s *Session) containerGrant(ctx context.Context, err error) error {
	switch code(err) {
	case errAccess, errAccessDB:
		return fmt.Errorf("register in innodb_memcache.containers: %w: GRANT CREATE, ALTER, SELECT, INSERT, DELETE ON innodb_memcache.* TO %s, or use --register yaml", err, s.account(ctx))
	}
	return err
}

// Registrable tells, as an error, what would keep Register from its work, rights included as far as the tables are there.
// It changes nothing.
func (s *Session) Registrable(ctx context.Context, d *triggers.Design) error {
	c := d.Container()
	if !c.PluginTypes && len(c.ValueColumns) > 1 {
		return errors.New("sums of decimals among several values can't stand in innodb_memcache.containers: register with yaml")
	}
	if err := s.containerClash(ctx, c); err != nil {
		return err
	}
	if there, err := s.containersThere(ctx); err != nil || !there {
		return err
	}
	// Rights are looked at when a statement is prepared.
	p, err := s.conn.PrepareContext(ctx, replaceContainer)
	if err != nil {
		return s.containerGrant(ctx, err)
	}
	return p.Close()
}

func (s *Session) containersThere(ctx context.Context) (bool, error) {
	var n int
	err := s.one(ctx, "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'innodb_memcache' AND TABLE_NAME = 'containers'", nil, &n)
	return n > 0, err
}

// containerClash is an error where a container of the name is over another table.
func (s *Session) containerClash(ctx context.Context, c triggers.Container) error {
	there, err := s.containersThere(ctx)
	if err != nil || !there {
		return err
	}
	var schemaName, table string
	err = s.one(ctx, "SELECT db_schema, db_table FROM innodb_memcache.containers WHERE name = ?", []any{c.Name}, &schemaName, &table)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return s.containerGrant(ctx, err)
	case schemaName != c.Table.Schema || table != c.Table.Table:
		return fmt.Errorf("innodb_memcache.containers has a container %s already, over %s.%s: change name in the spec, or delete that row", c.Name, schemaName, table)
	}
	return nil
}

const replaceContainer = "REPLACE INTO innodb_memcache.containers (name, db_schema, db_table, key_columns, value_columns, flags, cas_column, expire_time_column," +
	" unique_idx_name_on_key) VALUES (?, ?, ?, 'k', ?, ?, ?, ?, 'PRIMARY')"

// PrepareRegister makes the plugin's tables where a server has none.
func (s *Session) PrepareRegister(ctx context.Context, d *triggers.Design) error {
	if err := s.Registrable(ctx, d); err != nil {
		return err
	}
	if there, err := s.containersThere(ctx); err != nil || there {
		return err
	}
	for _, st := range containerTables {
		if err := s.exec(ctx, st); err != nil {
			return s.containerGrant(ctx, err)
		}
	}
	return s.Registrable(ctx, d) // the rights on tables that are new
}

// Register writes the row of innodb_memcache.containers that maps keys to the cache table, after PrepareRegister. A running
// binlogcache reads it at once. A container of the same name over another table is an error.
func (s *Session) Register(ctx context.Context, d *triggers.Design) error {
	if err := s.PrepareRegister(ctx, d); err != nil {
		return err
	}
	c := d.Container()
	column := func(name string) string {
		if name == "" {
			return "0"
		}
		return name
	}
	err := s.exec(ctx, replaceContainer, c.Name, c.Table.Schema, c.Table.Table,
		strings.Join(c.ValueColumns, ","), column(c.Flags), column(c.CAS), column(c.Expiration))
	if err == nil {
		// A running binlogcache reads the containers again when it sees a change of their definition in the log.
		err = s.exec(ctx, "ALTER TABLE innodb_memcache.containers COMMENT = 'containers of memcached clients'")
	}
	return s.containerGrant(ctx, err)
}

// Unregister removes the container's row, where it is about this cache table. An account that may not do so is told of it by
// Logf: there may be no such row.
func (s *Session) Unregister(ctx context.Context, spec *triggers.Spec) (bool, error) {
	res, err := s.conn.ExecContext(ctx, "DELETE FROM innodb_memcache.containers WHERE name = ? AND db_schema = ? AND db_table = ?",
		spec.Name, spec.Cache.Schema, spec.Cache.Table)
	switch c := code(err); {
	case absent(err):
		return false, nil
	case c == errAccess || c == errAccessDB:
		// Servers say so, too, where there is no such table.
		if there, err := s.containersThere(ctx); err != nil || !there {
			return false, err
		}
		s.logf("innodb_memcache.containers is left alone: if it has a row %s, delete it (or GRANT SELECT, DELETE ON innodb_memcache.containers TO %s)", spec.Name, s.account(ctx))
		return false, nil
	case err != nil:
		return false, err
	}
	n, err := res.RowsAffected()
	return n > 0, err
}
