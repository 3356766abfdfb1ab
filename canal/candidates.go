package canal

import (
	"context"
	"fmt"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
)

const (
	// defaultPatience is longer than a short loss of the network and the quick restart of a server, and shorter than people
	// wait. A fail-over is cheap where the next server has everything, so it need not be much longer.
	defaultPatience = 5 * time.Second
	// defaultCatchUp is long enough for a replica that has received the last transactions to apply them, on the usual lag.
	defaultCatchUp = 10 * time.Second
)

// candidates are the servers that may be followed, and which of them is. It belongs to Run's goroutine.
type candidates struct {
	all []*sqltext.Config
	// at is the one that is followed or tried. home is the one that was followed last, the first one before that.
	at, home int
	// patience is how long home may be away before others are tried; catchUp is how long others may lack what was applied
	// before everything is loaded anew from one of them.
	patience, catchUp time.Duration
	longest           time.Duration // pause

	lost    time.Time         // since when home can't be followed; zero while it is
	lacking time.Time         // when the first candidate lacked something since then; zero for none
	tried   int               // candidates since the last pause
	have    map[int]gtidSet   // what the candidates were seen to have since home was lost
	refused map[int][]Problem // of candidates that people must mend first
	pause   backoff
}

func newCandidates(cfg *Config) candidates {
	c := candidates{
		all: append([]*sqltext.Config{cfg.Source}, cfg.Fallbacks...), patience: cfg.Patience, catchUp: defaultCatchUp, longest: mostPause,
		have: map[int]gtidSet{}, refused: map[int][]Problem{},
	}
	if c.patience <= 0 {
		c.patience = defaultPatience
	}
	return c
}

// followed notes that the log was read from the one that was tried.
func (c *candidates) followed() {
	if c.at != c.home {
		c.pause = backoff{}
	}
	c.home, c.tried = c.at, 0
	c.lost, c.lacking = time.Time{}, time.Time{}
	clear(c.have)
	clear(c.refused)
}

// failed notes the end of a connection or a try, chooses whom to try next and returns how long to wait before that.
func (c *candidates) failed(end *failure) (wait time.Duration) {
	if c.lost.IsZero() {
		c.lost = time.Now()
	}
	if len(end.mend) > 0 {
		c.refused[c.at] = end.mend
	} else {
		delete(c.refused, c.at)
	}
	if end.reason != ReasonBehind {
		delete(c.have, c.at)
	}
	wait = min(c.pause.next(), c.longest)
	left := c.patience - time.Since(c.lost)
	if len(c.all) == 1 || c.at == c.home && left > 0 && end.reason != ReasonBehind {
		if len(c.all) > 1 {
			wait = min(wait, left)
		}
		return wait
	}
	c.at = (c.at + 1) % len(c.all)
	if c.tried++; c.tried < len(c.all) {
		return min(jitter(firstPause), c.longest)
	}
	c.tried = 0
	return wait
}

// hopeless gives what has to be mended when no candidate can be followed before that.
func (c *candidates) hopeless() (problems []Problem) {
	if len(c.refused) < len(c.all) {
		return nil
	}
	for i, source := range c.all {
		for _, p := range c.refused[i] {
			if len(c.all) > 1 {
				p.Text = source.Address + ": " + p.Text
			}
			problems = append(problems, p)
		}
	}
	return problems
}

// waitFor reports that a candidate which lacks something is not to be followed yet: it may catch up, or another one may
// be able to take over without a loss.
func (c *candidates) waitFor(src *source, sameServer bool, lack lack) bool {
	if len(c.all) == 1 || sameServer && !lack.purged {
		// What the very server that was followed does not have is not coming back.
		return false
	}
	if c.lacking.IsZero() {
		c.lacking = time.Now()
	}
	c.have[c.at] = src.start
	if time.Since(c.lacking) < c.catchUp {
		return true
	}
	// All is loaded anew then, from the one that has most.
	for i, set := range c.have {
		if i != c.at && set.containsAll(src.start) && !src.start.containsAll(set) {
			return true
		}
	}
	return false
}

// unfit says why the server can't take over from the one that was followed.
func unfit(was, src *source) error {
	const names = "lower_case_table_names"
	switch {
	case was == nil:
	case was.flavor != src.flavor:
		return fmt.Errorf("it is a %s server, the one that was followed a %s server", src.flavor, was.flavor)
	case was.vars[names] != src.vars[names]:
		return fmt.Errorf("it has %s=%s, the one that was followed %s", names, src.vars[names], was.vars[names])
	}
	return nil
}

// lead makes all further connections, the user's of Config.Led included, lead to that very server.
func (f *Follower) lead(cfg *sqltext.Config, src *source) {
	own := *cfg
	before := own.Init
	own.Init = func(ctx context.Context, c *sqltext.Conn) error {
		if before != nil {
			if err := before(ctx, c); err != nil {
				return err
			}
		}
		// A server may have READ UNCOMMITTED for its default.
		if err := c.Exec(ctx, "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"); err != nil {
			return err
		}
		return checkIdentity(ctx, c, src.identity)
	}
	// Two connections for a load or an audit that reads its table in one SELECT, one for the list of tables, one for proofs, one
	// for runReads.
	if old := f.pool.Swap(sqltext.NewPool(&own, 2*f.cfg.Loads+2+3, f.log)); old != nil {
		old.Close()
	}
	if f.cfg.Led != nil {
		f.cfg.Led(&own)
	}
}

// checkIdentity refuses a connection to another server.
func checkIdentity(ctx context.Context, c *sqltext.Conn, want string) error {
	have, err := Identify(ctx, c)
	if err == nil && have != want {
		err = fmt.Errorf("%w: %s in place of %s", sqltext.ErrOtherServer, have, want)
	}
	return err
}
