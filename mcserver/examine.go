package mcserver

import (
	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// Examination is how a container fits a definition of its table. The columns belong to that definition.
type Examination struct {
	// Problem says why nothing can be read through the container, in one line; nil where all of it can. The other fields
	// mean nothing where it is set.
	Problem error
	// NoWriting says why nothing can be written through it; nil where it can.
	NoWriting error
	// PassedIndex says why memory can't keep the index over the key, so that the database answers; nil where it can.
	PassedIndex error
	// Key and Values are the columns of keys and values; Flags, CAS and Expiry are nil where the container has none.
	Key                *schema.Column
	Values             []*schema.Column
	Flags, CAS, Expiry *schema.Column
	// Unmapped are the columns of the table that the container does not name.
	Unmapped []*schema.Column
}

// Examine compares the container with a definition of its table, as a Server does.
func (c *Container) Examine(def *schema.Table) Examination {
	b, err := bind(c, nil, def, Options{}.withDefaults(), CompatSafe)
	if err != nil {
		return Examination{Problem: err}
	}
	column := func(i int) *schema.Column {
		if i < 0 {
			return nil
		}
		return &def.Columns[i]
	}
	e := Examination{
		NoWriting: b.noWriting, Key: column(b.key), Flags: column(b.flags), CAS: column(b.cas), Expiry: column(b.exp),
	}
	for _, v := range b.value {
		e.Values = append(e.Values, column(v.column))
	}
	mapped := make([]bool, len(def.Columns))
	for _, i := range b.columns {
		mapped[i] = true
	}
	for i := range def.Columns {
		if !mapped[i] {
			e.Unmapped = append(e.Unmapped, &def.Columns[i])
		}
	}
	_, e.PassedIndex = rowcodec.NewKeyEncoder(def, b.index)
	return e
}
