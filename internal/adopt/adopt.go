// Package adopt makes a configuration of binlogcache out of a site of the InnoDB memcached plugin or of HandlerSocket: it
// reads the plugins' tables and variables from a server or from a dump (Inventory), decides what becomes of each
// (NewPlan), and tells what clients will see otherwise. Check then plays reads against the old port and the new one.
//
// It changes nothing anywhere and starts no goroutines that outlive a call.
package adopt

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// Inventory is what was found of the plugins.
type Inventory struct {
	// From names the server or the file, for people.
	From string
	// Flavor and Version are the server's; empty where a dump does not say.
	Flavor, Version string
	// Tables are the rows of the schema innodb_memcache; HasTables tells that it is there.
	Tables    mcserver.PluginTables
	HasTables bool
	// Definitions are those of the tables that containers map, by the names in the containers. A nil one is a table that
	// is not there; one that is missing is not known.
	Definitions map[schema.Name]*schema.Table
	// Unread says why the definition of a table, which a dump has, is not among them.
	Unread map[schema.Name]error
	// Bytes is what the server thinks that a table takes; Triggers is how many it has, as far as the account may see them.
	Bytes    map[schema.Name]int64
	Triggers map[schema.Name]int
	// Variables are those of the plugins, with their names in small letters.
	Variables Variables
}

// newInventory makes an empty one.
func newInventory(from string) *Inventory {
	return &Inventory{
		From: from, Definitions: make(map[schema.Name]*schema.Table), Bytes: make(map[schema.Name]int64),
		Triggers: make(map[schema.Name]int), Variables: make(Variables), Unread: make(map[schema.Name]error),
	}
}

// mapped are the tables that containers name, each once, in the containers' order.
func (inv *Inventory) mapped() []schema.Name {
	var names []schema.Name
	seen := make(map[schema.Name]bool)
	set := inv.Tables.Set()
	for _, c := range set.Containers {
		if n := (schema.Name{Schema: c.Schema, Table: c.Table}); !seen[n] {
			seen[n] = true
			names = append(names, n)
		}
	}
	return names
}

// ReadServer takes the inventory of a running server. from names it for people. The queries need SELECT on innodb_memcache
// and on the tables that containers map; the account sees neither triggers nor sizes of what it has no rights on.
func ReadServer(ctx context.Context, q schema.Querier, from, flavor, version string) (*Inventory, error) {
	inv := newInventory(from)
	inv.Flavor, inv.Version = flavor, version
	if err := inv.Variables.load(ctx, q); err != nil {
		return nil, err
	}
	var err error
	if inv.Tables, err = mcserver.LoadPluginTables(ctx, q); err != nil {
		return nil, err
	}
	inv.HasTables = len(inv.Tables.Containers)+len(inv.Tables.Policies)+len(inv.Tables.Options) > 0
	return inv, inv.ReadDefinitions(ctx, q, flavor)
}

// ReadDefinitions asks a server for the definitions of the tables that containers map. A dump's inventory may so be joined
// with the server that the tables live on now.
func (inv *Inventory) ReadDefinitions(ctx context.Context, q schema.Querier, flavor string) error {
	for _, n := range inv.mapped() {
		def, err := schema.Load(ctx, q, flavor, n.Schema, n.Table)
		if errors.Is(err, schema.ErrNoTable) {
			inv.Definitions[n] = nil
			continue
		}
		if err != nil {
			return err
		}
		inv.Definitions[n] = def
		if inv.Bytes[n], err = schema.EstimateBytes(ctx, q, n.Schema, n.Table); err != nil {
			return err
		}
		err = q.Query(ctx, "SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = "+literal(def.Schema)+
			" AND EVENT_OBJECT_TABLE = "+literal(def.Name), func(v [][]byte) error {
			count, err := strconv.Atoi(string(v[0]))
			inv.Triggers[n] = count
			return err
		})
		if err != nil {
			return fmt.Errorf("look for triggers of %s: %w", n, err)
		}
	}
	return nil
}

// literal is a text as an SQL literal that no sql_mode can misread.
func literal(text string) string {
	if text == "" {
		return "''"
	}
	return "_utf8mb4 0x" + hex.EncodeToString([]byte(text))
}
