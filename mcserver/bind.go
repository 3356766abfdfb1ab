package mcserver

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// binding is a container as it fits one definition of its table. It is immutable and shared.
type binding struct {
	table Table
	// viewer is table if it is a Viewer, or nil.
	viewer Viewer
	// aged is table if it is Aged, or nil.
	aged  Aged
	def   *schema.Table
	index int
	key   int // column positions; -1 where there is none
	flags int
	cas   int
	exp   int
	value []valueColumn
	// columns are all of the above, for searches.
	columns []int
	// separator stands between the value columns.
	separator string
	// strict tells that rows are read and written as the plugin does.
	strict bool
	// keyCheck tells how a request's key becomes a value of the key column.
	keyCheck keyCheck
	// noWriting is why rows can't be written; nil where they can. single tells that no other unique index than the
	// container's can refuse a row.
	noWriting error
	single    bool
	// encoder orders keys for ranges with two ends; nil where only the database knows the order.
	encoder *rowcodec.KeyEncoder
}

// valueColumn is one column of the value.
type valueColumn struct {
	column int
	// pad is the length to which CHAR is filled with blanks, as InnoDB keeps it and the plugin sends it; 0 does not.
	pad int
	// zerofill columns are sent as plain decimal numbers.
	zerofill bool
}

// bind checks c against its table's definition. The error is one line that says what to mend.
func bind(c *Container, table Table, def *schema.Table, o Options, compat Compat) (*binding, error) {
	b := &binding{table: table, def: def, flags: -1, cas: -1, exp: -1, separator: o.Separator, strict: compat == CompatStrict}
	b.viewer, _ = table.(Viewer)
	b.aged, _ = table.(Aged)
	if len(c.KeyColumns) != 1 {
		return nil, fmt.Errorf("exactly one key column is needed, not %d", len(c.KeyColumns))
	}
	if err := b.bindKey(c); err != nil {
		return nil, err
	}
	if len(c.ValueColumns) == 0 {
		return nil, fmt.Errorf("no value column")
	}
	for _, name := range c.ValueColumns {
		i := def.ColumnIndex(name)
		if i < 0 {
			return nil, fmt.Errorf("value column %q: %s", name, noColumn(def))
		}
		col := &def.Columns[i]
		// The plugin looks at the types only where there are several columns.
		if c.plugin && len(c.ValueColumns) > 1 && !pluginValueType(col.Kind) {
			return nil, fmt.Errorf("value column %q is %s: several value columns can only be CHAR, VARCHAR, TEXT, BLOB or integers", name, col.TypeText)
		}
		v := valueColumn{column: i, zerofill: col.Zerofill > 0 && col.Kind == schema.KindInt}
		if b.strict && col.Kind == schema.KindChar {
			v.pad = col.Length
		}
		b.value = append(b.value, v)
	}
	for _, m := range []struct {
		what, name string
		to         *int
	}{{"flags", c.FlagsColumn, &b.flags}, {"cas", c.CASColumn, &b.cas}, {"expiry", c.ExpiryColumn, &b.exp}} {
		i := def.ColumnIndex(m.name)
		if i < 0 {
			if m.name == "" || m.name == "0" || c.plugin {
				continue
			}
			return nil, fmt.Errorf("%s column %q: %s", m.what, m.name, noColumn(def))
		}
		if col := &def.Columns[i]; col.Kind != schema.KindInt {
			return nil, fmt.Errorf("%s column %q is %s: an integer type is needed", m.what, m.name, col.TypeText)
		}
		*m.to = i
	}
	b.columns = b.usedColumns()
	b.bindWriting(c)
	return b, nil
}

func noColumn(def *schema.Table) string {
	return fmt.Sprintf("%s has no such column (names are compared byte by byte)", def.FullName())
}

// bindKey finds the key column and its index.
func (b *binding) bindKey(c *Container) error {
	name := c.KeyColumns[0]
	if b.key = b.def.ColumnIndex(name); b.key < 0 {
		return fmt.Errorf("key column %q: %s", name, noColumn(b.def))
	}
	col := &b.def.Columns[b.key]
	switch col.Kind {
	case schema.KindInt, schema.KindChar, schema.KindVarchar:
	case schema.KindBinary, schema.KindVarbinary, schema.KindUUID:
		if c.plugin {
			return fmt.Errorf("key column %q is %s: the plugin knows CHAR, VARCHAR and integers only", name, col.TypeText)
		}
	default:
		return fmt.Errorf("key column %q is %s: CHAR, VARCHAR, BINARY, VARBINARY, UUID or an integer type is needed", name, col.TypeText)
	}
	index := c.UniqueIndex
	if index == "" {
		index = "PRIMARY"
	}
	if b.index = b.def.IndexByName(index); b.index < 0 {
		var names []string
		for i := range b.def.Indexes {
			if b.def.Indexes[i].Unique {
				names = append(names, b.def.Indexes[i].Name)
			}
		}
		return fmt.Errorf("index %q: %s has no such index; unique ones: %s", index, b.def.FullName(), strings.Join(names, ", "))
	}
	ix := &b.def.Indexes[b.index]
	switch {
	case !ix.Unique:
		return fmt.Errorf("index %q is not unique", index)
	case len(ix.Parts) != 1 || ix.Parts[0].Column != b.key:
		return fmt.Errorf("index %q is not over column %q alone", index, name)
	case ix.Parts[0].Prefix > 0:
		return fmt.Errorf("index %q holds only a prefix of column %q", index, name)
	case !ix.BTree:
		return fmt.Errorf("index %q is not a B-tree", index)
	}
	b.keyCheck = newKeyCheck(col)
	if encoder, err := rowcodec.NewKeyEncoder(b.def, b.index); err == nil {
		b.encoder = encoder
	}
	return nil
}

func pluginValueType(k schema.Kind) bool {
	switch k {
	case schema.KindInt, schema.KindChar, schema.KindVarchar, schema.KindText, schema.KindBlob, schema.KindBinary, schema.KindVarbinary:
		return true
	default:
		return false
	}
}

func (b *binding) usedColumns() []int {
	used := []int{b.key}
	add := func(i int) {
		if i < 0 {
			return
		}
		for _, u := range used {
			if u == i {
				return
			}
		}
		used = append(used, i)
	}
	for _, v := range b.value {
		add(v.column)
	}
	add(b.flags)
	add(b.cas)
	add(b.exp)
	return used
}

// errReopen says that a container's table must be opened again before it can be read.
var errReopen = errors.New("table is not open")

// container is a Container in use. What it is bound to follows its table's definition.
type container struct {
	Container
	options Options
	compat  Compat
	logger  *slog.Logger
	// barred is why the container can't be used whatever its table is; nil for none. wrongRow then tells that its own
	// row in the plugin's table is the reason.
	barred   error
	wrongRow bool

	// used tells that the container, or the one of its name in an earlier set, has been usable at some time.
	used    atomic.Bool
	current atomic.Pointer[binding]
	// failed is why the container does not fit its table; nil where it does.
	failed atomic.Pointer[bindFailure]
	mu     sync.Mutex // serialises rebind
}

// bindFailure remembers the definition that a container did not fit, so that it isn't tried and logged for each request.
type bindFailure struct {
	table Table
	def   *schema.Table
	err   error
}

// bound returns the binding to the table's present definition, making a new one where that has changed. It does no I/O;
// the error is errReopen where only opening the table again can help.
func (c *container) bound() (*binding, error) {
	b := c.current.Load()
	if b == nil {
		return nil, errReopen
	}
	if b.table.Def() == b.def {
		return b, nil
	}
	if b, err := c.rebind(b.table); err == nil {
		return b, nil
	}
	return nil, errReopen
}

// rebind binds the container to table's present definition. The error is errReopen when table has none, or says what
// does not fit.
func (c *container) rebind(table Table) (*binding, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	def := table.Def()
	if def == nil {
		return nil, errReopen
	}
	if b := c.current.Load(); b != nil && b.table == table && b.def == def {
		return b, nil
	}
	f := c.failed.Load()
	if f != nil && f.table == table && f.def == def {
		return nil, f.err
	}
	b, err := bind(&c.Container, table, def, c.options, c.compat)
	if err != nil {
		c.current.Store(nil)
		c.failed.Store(&bindFailure{table: table, def: def, err: err})
		c.logger.Warn("container does not fit its table", "container", c.Name, "table", def.FullName(), "err", err)
		return nil, err
	}
	if f != nil {
		c.logger.Info("container fits its table again", "container", c.Name, "table", def.FullName())
	}
	c.failed.Store(nil)
	c.current.Store(b)
	c.used.Store(true)
	return b, nil
}

// fail records that the container can't be used for a reason that has nothing to do with a definition.
func (c *container) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f := c.failed.Load(); f == nil || f.err.Error() != err.Error() {
		c.logger.Warn("container can't be used", "container", c.Name, "err", err)
	}
	c.current.Store(nil)
	c.failed.Store(&bindFailure{err: err})
}

// problem returns why the container can't be used at present, or nil.
func (c *container) problem() error {
	if c.barred != nil {
		return c.barred
	}
	if f := c.failed.Load(); f != nil {
		return f.err
	}
	return nil
}

// isWrongRow tells that the container comes from the plugin's table and its row does not describe a container of the
// table it names. A table that isn't there is none of this: it may be on its way.
func (c *container) isWrongRow() bool {
	if c.barred != nil {
		return c.wrongRow
	}
	f := c.failed.Load()
	return c.plugin && f != nil && f.def != nil
}
