// Package verify proves the cache right: it compares live tables with the source while both go on, all of them in turn in
// the background at a gentle rate, or those that somebody asks for. A row counts as different only when nothing has
// changed it between the places of the log that bracket its reading.
//
// The comparing itself is behind Comparer; this package says what is compared when, how fast, and what came of it.
package verify

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/schema"
)

// ErrUnavailable is for a Comparer to wrap: the table can't be compared now, because it is not live or ceased to be.
var ErrUnavailable = errors.New("the table cannot be compared now")

// Difference is a row that memory had otherwise than the source.
type Difference struct {
	Table string `json:"table"`
	// Kind is "missing" in memory, "extra" there, or "altered".
	Kind string `json:"kind"`
	// Key are the values of the row-identity key, for people.
	Key string `json:"key"`
	// Version is the row's in memory, 0 where there was none.
	Version uint64 `json:"version"`
	// Mended tells that memory has the source's row now.
	Mended bool `json:"mended"`
}

// Table is a live table and its size.
type Table struct {
	Name schema.Name
	Rows int
}

// Comparer compares tables.
type Comparer interface {
	// Live returns the tables that can be compared.
	Live() []Table
	// Compare compares a table, or the row of one whole key where that is not nil, in pieces of about so many rows, and
	// mends what differs if asked to. each gets every piece's size and differences; its error ends the comparison.
	Compare(ctx context.Context, name schema.Name, key [][]byte, pieceRows int, mend bool, each func(rows int, found []Difference) error) error
}

// Config is what a Verifier needs.
type Config struct {
	Comparer Comparer
	// Rate is how many rows are compared in a second in the background; 0 for none.
	Rate int
	// Every is how far apart the background's passes begin at least; 0 means ten seconds.
	Every time.Duration
	// Logger may be nil for silence.
	Logger *slog.Logger
}

// Verifier compares. Its methods may be called from any goroutine.
type Verifier struct {
	cfg Config
	// turn is held by the comparison under way.
	turn chan struct{}

	mu sync.Mutex
	// yield ends the background's comparison of a table, for one that somebody asks for; nil while there is none.
	yield context.CancelCauseFunc
	stats Stats
}

// Stats count since the start.
type Stats struct {
	// Rows were compared; Differences were found, by kind, and Mended of them.
	Rows        uint64
	Differences map[string]uint64
	Mended      uint64
	// Passes over all live tables have ended in the background, the last one at LastPass, after LastPassTook.
	Passes       uint64
	LastPass     time.Time
	LastPassTook time.Duration
	// Table is being compared, Done of about Total rows; empty while none is.
	Table       string
	Done, Total uint64
}

// New makes a Verifier.
func New(cfg Config) *Verifier {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Every <= 0 {
		cfg.Every = 10 * time.Second
	}
	return &Verifier{cfg: cfg, turn: make(chan struct{}, 1), stats: Stats{Differences: map[string]uint64{}}}
}

// Stats returns a copy.
func (v *Verifier) Stats() Stats {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.stats
	s.Differences = make(map[string]uint64, len(v.stats.Differences))
	for kind, n := range v.stats.Differences {
		s.Differences[kind] = n
	}
	return s
}

// Progress is how far a comparison is.
type Progress struct {
	Table string `json:"table"`
	// Done of about Total rows of the table have been compared.
	Done  uint64 `json:"done"`
	Total uint64 `json:"total"`
}

// Result is what came of a comparison that was asked for.
type Result struct {
	Tables int    `json:"tables"`
	Rows   uint64 `json:"rows"`
	// Differences counts all, Mended those of them that were mended; Found has the first of them.
	Differences uint64       `json:"differences"`
	Mended      uint64       `json:"mended"`
	Found       []Difference `json:"found"`
	// Skipped are the tables that could not be compared, with the reason.
	Skipped map[string]string `json:"skipped"`
}

const (
	// mostFound bounds Result.Found, mostLogged what is logged of one piece.
	mostFound  = 1000
	mostLogged = 10
)

// Request says what to compare.
type Request struct {
	// Tables are compared; nil means all that are live.
	Tables []schema.Name
	// Key are the values of a whole row-identity key, to compare that row of one table only; else nil.
	Key [][]byte
	// Mend has memory take the source's rows where they differ.
	Mend bool
	// Rate bounds the rows that are compared in a second; 0 for no bound.
	Rate int
}

// errYield ends the background's comparison for one that somebody asks for.
var errYield = errors.New("a comparison was asked for")

// Verify compares what is asked for and reports progress meanwhile. The error is that of the Comparer, where it does not
// wrap ErrUnavailable, or the cause of ctx.
func (v *Verifier) Verify(ctx context.Context, r Request, progress func(Progress)) (Result, error) {
	v.mu.Lock()
	if v.yield != nil {
		v.yield(errYield)
	}
	v.mu.Unlock()
	select {
	case v.turn <- struct{}{}:
	case <-ctx.Done():
		return Result{}, context.Cause(ctx)
	}
	defer func() { <-v.turn }()
	result := Result{Found: []Difference{}, Skipped: map[string]string{}}
	names, sizes := r.Tables, map[schema.Name]int{}
	for _, t := range v.live() {
		sizes[t.Name] = t.Rows
		if r.Tables == nil {
			names = append(names, t.Name)
		}
	}
	for _, name := range names {
		err := v.compare(ctx, Table{name, sizes[name]}, r, func(p Progress, rows int, found []Difference) {
			result.Rows += uint64(rows)
			result.Differences += uint64(len(found))
			for _, d := range found {
				if d.Mended {
					result.Mended++
				}
				if len(result.Found) < mostFound {
					result.Found = append(result.Found, d)
				}
			}
			progress(p)
		})
		switch {
		case errors.Is(err, ErrUnavailable):
			result.Skipped[name.String()] = err.Error()
		case err != nil:
			return result, fmt.Errorf("compare %s: %w", name, err)
		default:
			result.Tables++
		}
	}
	return result, nil
}

// Run compares all live tables in turn until ctx ends.
func (v *Verifier) Run(ctx context.Context) error {
	if v.cfg.Rate <= 0 {
		return nil
	}
	for {
		begun := time.Now()
		tables := v.live()
		whole := len(tables) > 0
		for _, t := range tables {
			whole = v.background(ctx, t) && whole
		}
		if whole {
			v.mu.Lock()
			v.stats.Passes++
			v.stats.LastPass, v.stats.LastPassTook = time.Now(), time.Since(begun)
			v.mu.Unlock()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(max(v.cfg.Every-time.Since(begun), v.cfg.Every/10)):
		}
	}
}

// live returns the live tables in the order of their names.
func (v *Verifier) live() []Table {
	tables := v.cfg.Comparer.Live()
	slices.SortFunc(tables, func(a, b Table) int { return strings.Compare(a.Name.String(), b.Name.String()) })
	return tables
}

// background compares one table at the gentle rate, and mends it. It reports whether that came to an end.
func (v *Verifier) background(parent context.Context, t Table) bool {
	select {
	case v.turn <- struct{}{}:
	case <-parent.Done():
		return false
	}
	defer func() { <-v.turn }()
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	v.mu.Lock()
	v.yield = cancel
	v.mu.Unlock()
	defer func() {
		v.mu.Lock()
		v.yield = nil
		v.mu.Unlock()
	}()
	err := v.compare(ctx, t, Request{Mend: true, Rate: v.cfg.Rate}, func(Progress, int, []Difference) {})
	if err != nil && ctx.Err() == nil {
		v.cfg.Logger.Debug("table not compared", "table", t.Name.String(), "err", err)
	}
	return err == nil
}

const (
	// pieceRows is the size of the pieces in which tables are compared at full speed.
	pieceRows = 20_000
	// leastPiece is what a piece counts for at least against the rate: it costs several queries.
	leastPiece = 100
)

// compare compares one table and counts. The turn is the caller's.
func (v *Verifier) compare(ctx context.Context, t Table, r Request, each func(p Progress, rows int, found []Difference)) error {
	size := pieceRows
	if r.Rate > 0 {
		size = min(size, max(r.Rate, leastPiece))
	}
	p := Progress{Table: t.Name.String(), Total: uint64(t.Rows)}
	if r.Key != nil {
		p.Total = 1
	}
	show := func() {
		v.mu.Lock()
		v.stats.Table, v.stats.Done, v.stats.Total = p.Table, p.Done, p.Total
		v.mu.Unlock()
	}
	show()
	defer func() {
		p = Progress{}
		show()
	}()
	begun, cost := time.Now(), 0
	return v.cfg.Comparer.Compare(ctx, t.Name, r.Key, size, r.Mend, func(rows int, found []Difference) error {
		v.count(rows, found)
		p.Done += uint64(rows)
		p.Total = max(p.Total, p.Done)
		show()
		each(p, rows, found)
		if r.Rate <= 0 {
			return nil
		}
		cost += max(rows, leastPiece)
		due := begun.Add(time.Duration(float64(cost) / float64(r.Rate) * float64(time.Second)))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Until(due)):
			return nil
		}
	})
}

func (v *Verifier) count(rows int, found []Difference) {
	v.mu.Lock()
	v.stats.Rows += uint64(rows)
	for _, d := range found {
		v.stats.Differences[d.Kind]++
		if d.Mended {
			v.stats.Mended++
		}
	}
	v.mu.Unlock()
	for i, d := range found {
		if i == mostLogged {
			v.cfg.Logger.Error("memory and source differ in more rows", "table", d.Table, "rows", len(found)-i)
			break
		}
		v.cfg.Logger.Error("memory and source differ", "table", d.Table, "kind", d.Kind, "key", d.Key, "version", d.Version, "mended", d.Mended)
	}
}
