package canal

import (
	"context"
	"sync"
	"time"

	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/internal/steady"
)

// defaultProveEvery costs the source one small statement a second.
const defaultProveEvery = time.Second

// mostClaims bounds the proofs that wait for the stream. While it is further behind than so many questions no more are
// asked: an older one is what is proved next in any case.
const mostClaims = 64

// claim says that what was committed on the source before the time asked ends before a place of its log.
type claim struct {
	asked steady.Time
	end   coordinate
}

// prove asks the source again and again where its log ends, and notes when the stream has been applied up to there: then
// everything is here that the source had when the question was sent. Unlike heartbeats and the times in events this
// holds whatever the network and the clocks do. It returns when ctx has ended.
func (f *Follower) prove(ctx context.Context) {
	claims := make(chan claim, mostClaims)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case c := <-claims:
				if f.pos.waitPlace(ctx, c.end) != nil {
					continue // another log by now
				}
				f.proved.Store(int64(c.asked))
				if f.cfg.Proved != nil {
					f.cfg.Proved(c.asked)
				}
			}
		}
	})
	for {
		var c claim
		err := f.withConn(ctx, func(conn *sqltext.Conn) (err error) {
			c.asked = steady.Now()
			c.end, _, err = logEnd(ctx, conn)
			return err
		})
		if err == nil {
			select {
			case claims <- c:
			default:
			}
		} else if ctx.Err() == nil {
			f.log.Debug("the source's log cannot be asked for its end", "err", err)
		}
		pause := time.Duration(0)
		if f.cfg.ProveEvery != nil {
			pause = f.cfg.ProveEvery()
		}
		if pause <= 0 {
			pause = defaultProveEvery
		}
		if sleep(ctx, pause) != nil {
			return
		}
	}
}
