package app

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/steady"
)

func TestFreshness(t *testing.T) {
	const limit = 100 * time.Millisecond
	f := newFreshness(limit, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = f.run(ctx) })
	defer wg.Wait()
	defer cancel()
	if !f.stale.Load() {
		t.Error("fresh before anything is proved")
	}
	if got := f.every(); got != limit/proofsPerLimit {
		t.Errorf("a proof every %v", got)
	}
	begin := steady.Now()
	f.prove(begin)
	if f.stale.Load() && begin.Since() < limit {
		t.Error("stale right after a proof")
	}
	for !f.stale.Load() {
		time.Sleep(time.Millisecond)
	}
	if age := begin.Since(); age < limit || age > limit+2*time.Second {
		t.Errorf("stale after %v", age)
	}
	// What was true long ago is no proof for now.
	f.prove(begin)
	if !f.stale.Load() {
		t.Error("fresh by an old proof")
	}
	begin = steady.Now()
	f.prove(begin)
	if f.stale.Load() && begin.Since() < limit {
		t.Error("stale right after a proof")
	}

	// Bounds of clients make proofs come sooner, for a while.
	f.want(10 * time.Second)
	f.want(time.Millisecond)
	f.want(60 * time.Millisecond)
	if got := f.every(); got != leastProofPause {
		t.Errorf("a proof every %v", got)
	}
	f.period -= steady.Time(wantedFor)
	if got := f.every(); got != leastProofPause {
		t.Errorf("a proof every %v", got)
	}
	f.period -= steady.Time(wantedFor)
	f.want(200 * time.Millisecond)
	if got := f.every(); got != limit/proofsPerLimit {
		t.Errorf("a proof every %v", got)
	}

	off := newFreshness(0, slog.New(slog.DiscardHandler))
	if off.stale.Load() || off.every() != 0 || off.run(t.Context()) != nil {
		t.Error("a limit where none was given")
	}
}
