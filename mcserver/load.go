package mcserver

import (
	"context"
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// ConfigSchema is where the plugin keeps its configuration.
const ConfigSchema = "innodb_memcache"

// valueColumnSeparators part the names in value_columns, in any mix.
const valueColumnSeparators = " ;,|\n"

// LoadContainers reads the plugin's tables innodb_memcache.{containers,cache_policies,config_options} through q, with
// the plugin's rules. Without the schema (or with none of its tables visible to q's user) the set is empty. Rows that
// can't be used are in the set's Problems, and so is a table without which none can. An error means that the tables could not be read.
func LoadContainers(ctx context.Context, q schema.Querier) (ContainerSet, error) {
	set := ContainerSet{Options: Options{}.withDefaults()}
	found := make(map[string]bool)
	err := q.Query(ctx, "SELECT CONVERT(TABLE_NAME USING utf8mb4) FROM information_schema.TABLES WHERE TABLE_SCHEMA = '"+ConfigSchema+"'",
		func(v [][]byte) error {
			found[string(v[0])] = true
			return nil
		})
	if err != nil {
		return set, fmt.Errorf("look for schema %s: %w", ConfigSchema, err)
	}
	if !found["containers"] {
		return set, nil
	}
	containers, err := set.loadContainerRows(ctx, q)
	if err != nil {
		return set, err
	}
	if len(containers) == 0 {
		return set, nil
	}
	// Without a row in each of the other two tables the plugin loads no container at all and does not serve. Here the
	// containers stay known, and reads through them are answered with the reason: a miss would look like rows that
	// are not there, and policies that nobody has set could open what was closed.
	for _, table := range []string{"cache_policies", "config_options"} {
		rows := 0
		if found[table] {
			load := set.loadPolicies
			if table == "config_options" {
				load = set.loadOptions
			}
			if rows, err = load(ctx, q); err != nil {
				return set, err
			}
		}
		if rows == 0 {
			reason := fmt.Sprintf("no container is used: table %s.%s is missing or empty", ConfigSchema, table)
			set.Problems = append(set.Problems, Problem{Reason: reason})
			for _, c := range containers {
				set.barred = append(set.barred, barredContainer{Container: c, reason: reason})
			}
			return set, nil
		}
	}
	set.Containers = containers
	return set, nil
}

// containerColumns are the columns of innodb_memcache.containers in the plugin's order.
var containerColumns = []string{
	"name", "db_schema", "db_table", "key_columns", "value_columns",
	"flags", "cas_column", "expire_time_column", "unique_idx_name_on_key",
}

// loadContainerRows returns the containers that can be used so far and notes the others.
func (cs *ContainerSet) loadContainerRows(ctx context.Context, q schema.Querier) ([]Container, error) {
	var sql strings.Builder
	// The name stays as its bytes are, since clients' bytes are compared with it; the rest are identifiers.
	sql.WriteString("SELECT name")
	for _, c := range containerColumns[1:] {
		sql.WriteString(", CONVERT(" + c + " USING utf8mb4)")
	}
	sql.WriteString(" FROM " + ConfigSchema + ".containers ORDER BY name")
	var containers []Container
	err := q.Query(ctx, sql.String(), func(v [][]byte) error {
		c, reason := containerFromRow(v)
		if reason != "" {
			cs.Problems = append(cs.Problems, Problem{Container: c.Name, Reason: reason})
			cs.barred = append(cs.barred, barredContainer{Container: c, reason: reason, wrongRow: true})
			return nil
		}
		containers = append(containers, c)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read %s.containers: %w", ConfigSchema, err)
	}
	return containers, nil
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
			return c, fmt.Sprintf("%s is NULL (0 marks a column that is not used)", containerColumns[i])
		}
	}
	if len(c.ValueColumns) == 0 {
		return c, "value_columns is empty"
	}
	return c, ""
}

// loadPolicies reads the first row in the order of the primary key, as the plugin does.
func (cs *ContainerSet) loadPolicies(ctx context.Context, q schema.Querier) (rows int, err error) {
	err = q.Query(ctx, "SELECT get_policy, set_policy, delete_policy, flush_policy FROM "+ConfigSchema+
		".cache_policies ORDER BY policy_name LIMIT 1",
		func(v [][]byte) error {
			rows++
			for i, p := range []*Policy{&cs.Policies.Get, &cs.Policies.Set, &cs.Policies.Delete, &cs.Policies.Flush} {
				// NULL and what is no policy count as innodb_only.
				*p, _ = ParsePolicy(string(v[i]))
			}
			return nil
		})
	if err != nil {
		return 0, fmt.Errorf("read %s.cache_policies: %w", ConfigSchema, err)
	}
	return rows, nil
}

func (cs *ContainerSet) loadOptions(ctx context.Context, q schema.Querier) (rows int, err error) {
	err = q.Query(ctx, "SELECT name, value FROM "+ConfigSchema+".config_options ORDER BY name",
		func(v [][]byte) error {
			rows++
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
			return nil
		})
	if err != nil {
		return 0, fmt.Errorf("read %s.config_options: %w", ConfigSchema, err)
	}
	cs.Options = cs.Options.withDefaults()
	return rows, nil
}
