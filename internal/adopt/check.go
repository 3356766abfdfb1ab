package adopt

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/binlogcache/binlogcache/mcserver"
	"github.com/binlogcache/binlogcache/schema"
)

// CheckOptions say what is compared.
type CheckOptions struct {
	// Old and New are the plugin's port and ours: the network, tcp or unix, and the address in it.
	Old, New [2]string
	// Sample is the number of keys of each container that are read.
	Sample int
	// Progress may be nil.
	Progress func(container string, done, total int64)
}

// Comparison is what came of one container.
type Comparison struct {
	Container string
	// Skipped says why nothing was compared; empty where something was.
	Skipped string
	// Read is how many keys were asked for, Unaskable how many of the sample no client can ask for: they have blanks or
	// control characters, or are too long.
	Read, Unaskable int
	// Padded are answers that are alike but for the blanks that the plugin fills CHAR up with.
	Padded int
	// Different is how many answers differ and stay so; Examples are some of them.
	Different int
	Examples  []string
}

const (
	// maxExamples is how many differences are shown of one container.
	maxExamples = 20
	// settleTries and settlePause bound the wait for a difference to vanish: the new port follows the log of the server
	// that the old one reads.
	settleTries = 10
	settlePause = 200 * time.Millisecond
	// bareKeys is how many keys of the default container are also asked for without its name.
	bareKeys = 100
	// maxShown is how many bytes of a key or value are shown.
	maxShown = 60
	// smallTable is up to how many times the sample a table is read whole.
	smallTable = 4
)

// Check reads a sample of the keys of each container through both ports. q chooses the keys from the tables. The error is that of
// a port or of the server that can't be asked.
func (p *Plan) Check(ctx context.Context, q schema.Querier, o CheckOptions) ([]Comparison, error) {
	var all []Comparison
	for i := range p.adopted {
		c, err := p.checkContainer(ctx, q, &p.adopted[i], o)
		if err != nil {
			return all, fmt.Errorf("container %q: %w", p.adopted[i].Name, err)
		}
		all = append(all, c)
	}
	return all, nil
}

func (p *Plan) checkContainer(ctx context.Context, q schema.Querier, a *adopted, o CheckOptions) (Comparison, error) {
	c := Comparison{Container: a.Name}
	byName := a.Name == a.from
	switch {
	case p.set.Policies.Get == mcserver.PolicyCacheOnly:
		c.Skipped = "get_policy is cache_only: reads do not look at the table"
	case p.set.Policies.Get == mcserver.PolicyDisabled:
		c.Skipped = "get_policy is disabled"
	case a.def == nil:
		c.Skipped = "its table is not known"
	case !byName && a.Name != p.defaultName():
		c.Skipped = "its name cannot stand behind @@, and it is not the default"
	}
	if c.Skipped != "" {
		return c, nil
	}
	keys, err := sampleKeys(ctx, q, a, o.Sample)
	if err != nil {
		return c, err
	}
	prefix := "@@" + a.Name + p.set.Options.TableMapDelimiter[:1]
	both := &ports{cas: a.exam.CAS != nil, separator: p.set.Options.Separator}
	defer both.close()
	if err := both.open(ctx, o); err != nil {
		return c, err
	}
	var probes []probe
	for _, k := range keys {
		if !canBeAsked(k, len(prefix)) {
			c.Unaskable++
			continue
		}
		var pr probe
		if a.Name == p.defaultName() && (!byName || len(probes) < bareKeys) {
			pr = append(pr, k)
		}
		if byName {
			pr = append(pr, append([]byte(prefix), k...))
		}
		probes = append(probes, pr)
	}
	c.Read = len(probes)
	return c, both.compare(ctx, a, probes, &c, o.Progress)
}

// probe is one key in the ways in which it is asked for.
type probe [][]byte

// canBeAsked tells that a key can stand in a request of the text protocol, behind prefix bytes.
func canBeAsked(key []byte, prefix int) bool {
	if len(key) == 0 || len(key)+prefix > 250 {
		return false
	}
	for _, c := range key {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	// These would be read as something else than a key.
	return !bytes.HasPrefix(key, []byte("@@")) && !bytes.HasPrefix(key, []byte("@>")) && !bytes.HasPrefix(key, []byte("@<"))
}

// sampleKeys chooses keys from all over the container's table.
func sampleKeys(ctx context.Context, q schema.Querier, a *adopted, n int) ([][]byte, error) {
	rows, err := schema.EstimateRows(ctx, q, a.def.Schema, a.def.Name)
	if err != nil {
		return nil, err
	}
	column := schema.QuoteName(a.exam.Key.Name)
	sql := "SELECT " + column + " FROM " + schema.QuoteName(a.def.Schema) + "." + schema.QuoteName(a.def.Name) + " WHERE " + column + " IS NOT NULL"
	if large := uint64(n) * smallTable; rows > large {
		// More than are asked for, so that chance leaves enough.
		sql += " AND RAND() < " + strconv.FormatFloat((1.5*float64(n)+60)/float64(rows), 'f', 12, 64)
	}
	var keys [][]byte
	seen := 0
	err = q.Query(ctx, sql, func(v [][]byte) error {
		// Each row that comes has the same chance to be in the sample.
		seen++
		if len(keys) < n {
			keys = append(keys, bytes.Clone(v[0]))
		} else if i := rand.IntN(seen); i < n {
			keys[i] = bytes.Clone(v[0])
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("choose keys: %w", err)
	}
	return keys, nil
}

// ports are connections to both ports. @@name is remembered by a connection, so keys without it have connections of their own.
type ports struct {
	named, bare pair
	cas         bool
	separator   string
}

// pair is a connection to each port.
type pair struct{ old, new *client }

func (p *ports) open(ctx context.Context, o CheckOptions) (err error) {
	for _, x := range []*pair{&p.named, &p.bare} {
		if x.old, err = dialMemcached(ctx, o.Old[0], o.Old[1]); err != nil {
			return fmt.Errorf("the plugin's port: %w", err)
		}
		if x.new, err = dialMemcached(ctx, o.New[0], o.New[1]); err != nil {
			return fmt.Errorf("the new port: %w", err)
		}
	}
	return nil
}

func (p *ports) close() {
	for _, c := range []*client{p.named.old, p.named.new, p.bare.old, p.bare.new} {
		if c != nil {
			c.close()
		}
	}
}

// compare asks both ports for all keys, and again for those that differ, until they agree or enough time has passed.
func (p *ports) compare(ctx context.Context, a *adopted, probes []probe, c *Comparison, progress func(string, int64, int64)) error {
	for try := 0; ; try++ {
		var wrong []probe
		for i, pr := range probes {
			alike, padding, example, err := p.ask(a, pr)
			switch {
			case err != nil:
				return err
			case padding:
				c.Padded++
			case alike:
			case try < settleTries:
				wrong = append(wrong, pr)
			default:
				c.Different++
				if len(c.Examples) < maxExamples {
					c.Examples = append(c.Examples, example)
				}
			}
			if try == 0 && progress != nil {
				progress(a.Name, int64(i)+1, int64(len(probes)))
			}
		}
		if len(wrong) == 0 {
			return nil
		}
		probes = wrong
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(settlePause):
		}
	}
}

// ask compares the answers to one key. example says how they differ.
func (p *ports) ask(a *adopted, pr probe) (alike, padding bool, example string, err error) {
	for _, key := range pr {
		x := p.bare
		if bytes.HasPrefix(key, []byte("@@")) {
			x = p.named
		}
		was, err := x.old.get(key, p.cas)
		if err != nil {
			return false, false, "", fmt.Errorf("the plugin's port: key %s: %w", show(key), err)
		}
		is, err := x.new.get(key, p.cas)
		if err != nil {
			return false, false, "", fmt.Errorf("the new port: key %s: %w", show(key), err)
		}
		switch {
		case was.same(is):
		case padded(a, p.separator, was, is):
			padding = true
		default:
			return false, false, fmt.Sprintf("key %s: the plugin %s; here %s", show(key), was.describe(p.cas), is.describe(p.cas)), nil
		}
	}
	return true, padding, "", nil
}

// padded tells that two answers differ in nothing but the blanks to which the plugin fills up CHAR.
func padded(a *adopted, separator string, was, is answer) bool {
	char := false
	for _, v := range a.exam.Values {
		char = char || v.Kind == schema.KindChar
	}
	if !char || !was.found || !is.found || was.flags != is.flags || was.cas != is.cas {
		return false
	}
	old, now := [][]byte{was.value}, [][]byte{is.value}
	if len(a.exam.Values) > 1 {
		old, now = bytes.Split(was.value, []byte(separator)), bytes.Split(is.value, []byte(separator))
	}
	return slices.EqualFunc(old, now, func(x, y []byte) bool {
		return bytes.Equal(bytes.TrimRight(x, " "), bytes.TrimRight(y, " "))
	})
}

// show is a text for people, cut where it is long.
func show(b []byte) string {
	if len(b) > maxShown {
		return strconv.QuoteToASCII(string(b[:maxShown])) + fmt.Sprintf("... (%d bytes)", len(b))
	}
	return strconv.QuoteToASCII(string(b))
}
