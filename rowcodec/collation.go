package rowcodec

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"

	"vitess.io/vitess/go/mysql/collations"
	"vitess.io/vitess/go/mysql/collations/colldata"

	"github.com/binlogcache/binlogcache/schema"
)

// collation orders the texts of one collation.
type collation struct {
	charset *charset
	// pad is true for PAD SPACE: a shorter text compares as if blanks followed without end.
	pad   bool
	order textOrder
}

// textOrder appends sort keys. A sort key ends by itself (none is a proper prefix of another), and comparing the bytes
// of two of them gives the collation's order, padding included.
type textOrder interface {
	appendKey(dst, v []byte) ([]byte, error)
}

var errNoText = fmt.Errorf("%w: the text has characters that have no known weight", ErrUnsupportedKey)

// lastCollation bounds the collation numbers that are tried when looking for names; MySQL's end at 323.
const lastCollation = 400

// loadNames maps the names of the collations that the library knows to its data.
var loadNames = sync.OnceValue(func() map[string]colldata.Collation {
	names := make(map[string]colldata.Collation, lastCollation)
	for id := range collations.ID(lastCollation) {
		if c := colldata.Lookup(id); c != nil {
			names[c.Name()] = c
		}
	}
	return names
})

// collationCache keeps what newCollation made: tables take memory and time.
var collationCache struct {
	sync.Mutex
	made map[string]*collation
}

// lookupCollation returns the collation of that name as the server spells it. The error says why texts of it can't be
// ordered here.
func lookupCollation(name string) (*collation, error) {
	collationCache.Lock()
	defer collationCache.Unlock()
	if c := collationCache.made[name]; c != nil {
		return c, nil
	}
	c, err := newCollation(name)
	if err != nil {
		return nil, fmt.Errorf("collation %s: %w", name, err)
	}
	if collationCache.made == nil {
		collationCache.made = make(map[string]*collation)
	}
	collationCache.made[name] = c
	return c, nil
}

// columnCollation returns the collation by which a server of that flavor orders columns of that kind and collation name.
func columnCollation(flavor string, kind schema.Kind, name string) (*collation, error) {
	if flavor == schema.FlavorMariaDB && strings.Contains(name, "_0900_") {
		// MariaDB has those names since 11.4, for other collations: all but this one are of its uca1400 family.
		if name != "utf8mb4_0900_bin" {
			return nil, fmt.Errorf("collation %s: another one on MariaDB than on MySQL", name)
		}
		name = "utf8mb4_nopad_bin"
	}
	base := strings.Replace(name, "_nopad_", "_", 1)
	if kind != schema.KindChar || base == name {
		return lookupCollation(name)
	}
	// Where MariaDB compares CHAR without padding it does so with all the blanks that CHAR is filled up with, which is to
	// say with padding. Characters without weight, which count as characters there, and others of a blank's weight make
	// exceptions.
	c, err := lookupCollation(base)
	if err != nil {
		return nil, err
	}
	switch order := c.order.(type) {
	case *byteOrder:
		if bytes.Count(order.weights[:], []byte{order.space}) == 1 {
			return c, nil
		}
	case *runeOrder:
		return c, nil
	}
	return nil, fmt.Errorf("collation %s: not supported for CHAR", name)
}

func newCollation(name string) (*collation, error) {
	// Servers before MySQL 8.0.29 and MariaDB 10.6 say utf8 for utf8mb3.
	canonical := name
	if rest, ok := strings.CutPrefix(name, "utf8_"); ok {
		canonical = "utf8mb3_" + rest
	}
	// MariaDB's variants without padding have the weights of the collation that they are named after.
	base := strings.Replace(canonical, "_nopad_", "_", 1)
	csName, _, _ := strings.Cut(base, "_")
	cs := lookupCharset(csName)
	if cs == nil {
		return nil, errors.New("character set not supported")
	}
	data := loadNames()[base]
	if data == nil {
		return nil, errors.New("not supported")
	}
	c := &collation{charset: cs, pad: base == canonical}
	switch data := data.(type) {
	case *colldata.Collation_binary, *colldata.Collation_utf8mb4_0900_bin:
		c.pad = false
		c.order = newByteOrder(nil, false)
	case *colldata.Collation_8bit_bin:
		c.order = newByteOrder(nil, c.pad)
	case *colldata.Collation_unicode_bin:
		// The bytes of UTF-8 have the order of the code points.
		c.order = newByteOrder(nil, c.pad)
	case *colldata.Collation_8bit_simple_ci:
		c.order = newByteOrder(byteWeights(data), c.pad)
	case *colldata.Collation_unicode_general_ci:
		c.order = newRuneOrder(cs, data, c.pad)
	case *colldata.Collation_uca_legacy:
		c.order = newUCAOrder(cs, data, c.pad)
	case *colldata.Collation_utf8mb4_uca_0900:
		c.pad = false
		c.order = newUCAOrder(cs, data, false)
	default:
		return nil, errors.New("not supported")
	}
	return c, nil
}

// byteWeights reads the weights of an 8-bit character set's bytes.
func byteWeights(data colldata.Collation) *[256]byte {
	var weights [256]byte
	for b := range weights {
		w := data.WeightString(nil, []byte{byte(b)}, 0)
		weights[b] = w[0]
	}
	return &weights
}

// equal reports whether two texts are the same for the collation with blanks at their ends counted as they are: the way
// in which the servers find labels of ENUM and SET.
func (c *collation) equal(a, b []byte) bool {
	if string(a) == string(b) {
		return true
	}
	// A mark at the end, which no collation ignores, keeps trailing blanks from being padded away.
	keyA, errA := c.order.appendKey(nil, append(bytes.Clone(a), '.'))
	keyB, errB := c.order.appendKey(nil, append(bytes.Clone(b), '.'))
	return errA == nil && errB == nil && bytes.Equal(keyA, keyB)
}

// binaryCollation is that of BINARY, VARBINARY and the BLOBs.
var binaryCollation = &collation{charset: binaryCharset, order: newByteOrder(nil, false)}
