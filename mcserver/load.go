package mcserver

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// ConfigSchema is where the plugin keeps its configuration.
const ConfigSchema = "innodb_memcache"

// valueColumnSeparators part the names in value_columns, in any mix.
const valueColumnSeparators = " ;,|\n"

// PluginTables are the rows of the plugin's tables innodb_memcache.{containers,cache_policies,config_options}, as a
// server gives them or a dump of it. A nil value is NULL. A table that is not there is as one without rows.
type PluginTables struct {
	// Containers has the columns of ContainerColumns, and the rows in the order of their names.
	Containers [][][]byte
	// Policies has get_policy, set_policy, delete_policy and flush_policy; only the first row counts.
	Policies [][][]byte
	// Options has name and value.
	Options [][][]byte
}

// LoadContainers reads the plugin's tables innodb_memcache.{containers,cache_policies,config_options} through q, with
// the plugin's rules. Without the schema (or with none of its tables visible to q's user) the set is empty. Rows that
// can't be used are in the set's Problems, and so is a table without which none can. An error means that the tables could not be read.
func LoadContainers(ctx context.Context, q schema.Querier) (ContainerSet, error) {
	tables, err := LoadPluginTables(ctx, q)
	if err != nil {
		return ContainerSet{Options: Options{}.withDefaults()}, err
	}
	return tables.Set(), nil
}

// LoadPluginTables reads the plugin's tables as they are.
func LoadPluginTables(ctx context.Context, q schema.Querier) (PluginTables, error) {
	var tables PluginTables
	found := make(map[string]bool)
	err := q.Query(ctx, "SELECT CONVERT(TABLE_NAME USING utf8mb4) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+ConfigSchema+"'",
		func(v [][]byte) error {
			found[string(v[0])] = true
			return nil
		})
	if err != nil {
		return tables, fmt.Errorf("look for schema %s: %w", ConfigSchema, err)
	}
	if !found["containers"] {
		return tables, nil
	}
	var containers strings.Builder
	// The name stays as its bytes are, since clients' bytes are compared with it; the rest are identifiers.
	containers.WriteString("SELECT name")
	for _, c := range ContainerColumns[1:] {
		containers.WriteString(", CONVERT(" + c + " USING utf8mb4)")
	}
	containers.WriteString(" FROM " + ConfigSchema + ".containers ORDER BY name")
	for _, t := range []struct {
		name, sql string
		rows      *[][][]byte
	}{
		{"containers", containers.String(), &tables.Containers},
		{"cache_policies", "SELECT get_policy, set_policy, delete_policy, flush_policy FROM " + ConfigSchema + ".cache_policies ORDER BY policy_name LIMIT 1", &tables.Policies},
		{"config_options", "SELECT name, value FROM " + ConfigSchema + ".config_options ORDER BY name", &tables.Options},
	} {
		if !found[t.name] || t.name != "containers" && len(tables.Containers) == 0 {
			continue
		}
		err := q.Query(ctx, t.sql, func(v [][]byte) error {
			row := make([][]byte, len(v))
			for i := range v {
				row[i] = bytes.Clone(v[i])
			}
			*t.rows = append(*t.rows, row)
			return nil
		})
		if err != nil {
			return tables, fmt.Errorf("read %s.%s: %w", ConfigSchema, t.name, err)
		}
	}
	return tables, nil
}

// Set applies the plugin's rules to the rows. Those that can't be used are in the set's Problems, and so is a table without
// which none can.
func (t *PluginTables) Set() ContainerSet {
	set := ContainerSet{Options: Options{}.withDefaults()}
	if len(t.Containers) == 0 {
		return set
	}
	containers := set.takeContainers(t.Containers)
	// Without a row in each of the other two tables the plugin loads no container at all and does not serve. Here the
	// containers stay known, and reads through them are answered with the reason: a miss would look like rows that
	// are not there, and policies that nobody has set could open what was closed.
	for _, other := range []struct {
		table string
		rows  [][][]byte
	}{{"cache_policies", t.Policies}, {"config_options", t.Options}} {
		if len(other.rows) > 0 {
			continue
		}
		reason := fmt.Sprintf("no container is used: table %s.%s is missing or empty", ConfigSchema, other.table)
		set.Problems = append(set.Problems, Problem{Reason: reason})
		for _, c := range containers {
			set.barred = append(set.barred, barredContainer{Container: c, reason: reason})
		}
		return set
	}
	for i, p := range []*Policy{&set.Policies.Get, &set.Policies.Set, &set.Policies.Delete, &set.Policies.Flush} {
		// NULL and what is no policy count as innodb_only.
		*p, _ = ParsePolicy(string(t.Policies[0][i]))
	}
	set.takeOptions(t.Options)
	set.Containers = containers
	return set
}

// ContainerColumns are the columns of innodb_memcache.containers in the plugin's order.
var ContainerColumns = []string{
	"name", "db_schema", "db_table", "key_columns", "value_columns",
	"flags", "cas_column", "expire_time_column", "unique_idx_name_on_key",
}

// takeContainers returns the containers that can be used so far and notes the others.
func (cs *ContainerSet) takeContainers(rows [][][]byte) []Container {
	var containers []Container
	for _, v := range rows {
		c, reason := containerFromRow(v)
		if reason != "" {
			cs.Problems = append(cs.Problems, Problem{Container: c.Name, Reason: reason})
			cs.barred = append(cs.barred, barredContainer{Container: c, reason: reason, wrongRow: true})
			continue
		}
		containers = append(containers, c)
	}
	return containers
}

// containerFromRow makes a container of a row, or says why it can't be used.
func containerFromRow(v [][]byte) (c Container, reason string) {
	c = Container{
		Name: string(v[0]), Schema: string(v[1]), Table: string(v[2]), KeyColumns: []string{string(v[3])},
		ValueColumns: strings.FieldsFunc(string(v[4]), func(r rune) bool { return strings.ContainsRune(valueColumnSeparators, r) }),
		FlagsColumn:  string(v[5]), CASColumn: string(v[6]), ExpiryColumn: string(v[7]), UniqueIndex: string(v[8]),
		plugin: true,
	}
	for i := range v {
		if v[i] == nil {
			return c, fmt.Sprintf("%s is NULL (0 marks a column that is not used)", ContainerColumns[i])
		}
	}
	if len(c.ValueColumns) == 0 {
		return c, "value_columns is empty"
	}
	return c, ""
}

func (cs *ContainerSet) takeOptions(rows [][][]byte) {
	for _, v := range rows {
		value := v[1]
		if len(value) > maxOptionBytes {
			value = value[:maxOptionBytes]
		}
		switch string(v[0]) {
		case "separator":
			cs.Options.Separator = string(value)
		case "table_map_delimiter":
			cs.Options.TableMapDelimiter = string(value)
		}
	}
	cs.Options = cs.Options.withDefaults()
}
