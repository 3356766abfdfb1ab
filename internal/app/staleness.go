package app

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/binlogcache/binlogcache/internal/steady"
)

// How often the source is asked for a proof under --max-staleness, as a part of that: often enough for an answer that is
// lost or late to be no reason for anything.
const (
	proofsPerLimit  = 5
	mostProofPause  = time.Second
	leastProofPause = 10 * time.Millisecond
)

// wantedFor is how long a bound that a client has asked for counts at least, and at most twice: proofs come as often as the
// smallest one of that time needs.
const wantedFor = 5 * time.Second

// longestLook bounds the time after which a machine that was suspended notices that its memory has become too old.
const longestLook = 200 * time.Millisecond

// freshness knows whether memory may answer under --max-staleness: while the time since the last proof that everything
// of the source was applied is below the limit.
type freshness struct {
	limit time.Duration // 0: no limit
	log   *slog.Logger
	// stale is what readers look at.
	stale   atomic.Bool
	periods atomic.Uint64 // of staleness

	// wanted is the smallest bound that clients have asked for in this period, 0 for none.
	wanted atomic.Int64

	mu     sync.Mutex
	proved steady.Time // guarded by mu; zero before the first proof
	period steady.Time // guarded by mu; when the period began
	before int64       // guarded by mu; wanted in the period before
}

func newFreshness(limit time.Duration, log *slog.Logger) *freshness {
	f := &freshness{limit: limit, log: log}
	f.stale.Store(limit > 0) // nothing is proved yet
	return f
}

// want notes that a client has asked for answers that are not older than bound.
func (f *freshness) want(bound time.Duration) {
	for {
		now := f.wanted.Load()
		if now != 0 && now <= int64(bound) || f.wanted.CompareAndSwap(now, max(int64(bound), 1)) {
			return
		}
	}
}

// every is how long to wait before the next proof is asked for; 0 for the usual.
func (f *freshness) every() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.period == 0 || f.period.Since() >= wantedFor {
		f.before, f.period = f.wanted.Swap(0), steady.Now()
	}
	pause := min(f.limit/proofsPerLimit, mostProofPause)
	for _, bound := range []int64{f.before, f.wanted.Load()} {
		if bound == 0 {
			continue
		}
		short := max(time.Duration(bound)/proofsPerLimit, leastProofPause)
		if pause == 0 || short < pause {
			pause = short
		}
	}
	return pause
}

// prove notes that everything that the source had at that time is applied.
func (f *freshness) prove(at steady.Time) {
	if f.limit == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.proved = at
	f.judge()
}

// judge settles stale and returns how long that will hold without another proof. The caller holds mu.
func (f *freshness) judge() time.Duration {
	if f.proved == 0 {
		return f.limit
	}
	age := f.proved.Since()
	stale := age >= f.limit
	if was := f.stale.Swap(stale); stale && !was {
		f.periods.Add(1)
		f.log.Warn("memory is older than --max-staleness: the database answers", "limit", f.limit.String())
	} else if was && !stale {
		f.log.Info("memory answers: it is not older than --max-staleness", "age", age.String())
	}
	if stale {
		return f.limit
	}
	return f.limit - age
}

// run notices when proofs fail to come, until ctx ends.
func (f *freshness) run(ctx context.Context) error {
	if f.limit == 0 {
		return nil
	}
	for {
		f.mu.Lock()
		wait := f.judge()
		f.mu.Unlock()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(wait, longestLook)):
		}
	}
}
