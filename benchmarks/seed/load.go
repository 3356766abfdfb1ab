package main

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"time"
)

// client sends one request at a time over a connection of its own.
type client interface {
	// do sends request number n of this client and waits for its answer; an answer that is not the right one is an error.
	do(n int) error
	close()
}

// timing says how long clients took for all their requests: the quickest, the slowest and the mean client, and the time
// from the first request of all to the last answer of all.
type timing struct{ min, max, mean, total time.Duration }

// run connects n clients, and then lets each of them send its requests at the same time as the others. The first error
// ends the run.
func run(n, requests int, dial func(id int) (client, error)) (timing, error) {
	clients := make([]client, n)
	for i := range clients {
		c, err := dial(i)
		if err != nil {
			return timing{}, fmt.Errorf("client %d: %w", i, err)
		}
		defer c.close()
		clients[i] = c
	}
	var (
		wg    sync.WaitGroup
		start = make(chan struct{})
		took  = make([]time.Duration, n)
		errs  = make([]error, n)
		begin time.Time
	)
	for i, c := range clients {
		wg.Go(func() {
			<-start
			for k := range requests {
				if err := c.do(k); err != nil {
					errs[i] = fmt.Errorf("client %d, request %d: %w", i, k, err)
					return
				}
			}
			took[i] = time.Since(begin)
		})
	}
	begin = time.Now()
	close(start)
	wg.Wait()
	t := timing{min: slices.Min(took), max: slices.Max(took), total: time.Since(begin)}
	for i, d := range took {
		if errs[i] != nil {
			return timing{}, errs[i]
		}
		t.mean += d / time.Duration(n)
	}
	return t, nil
}

// median of the runs, field by field.
func median(ts []timing) timing {
	of := func(field func(timing) time.Duration) time.Duration {
		var ds []time.Duration
		for _, t := range ts {
			ds = append(ds, field(t))
		}
		slices.Sort(ds)
		return (ds[(len(ds)-1)/2] + ds[len(ds)/2]) / 2
	}
	return timing{
		min:   of(func(t timing) time.Duration { return t.min }),
		max:   of(func(t timing) time.Duration { return t.max }),
		mean:  of(func(t timing) time.Duration { return t.mean }),
		total: of(func(t timing) time.Duration { return t.total }),
	}
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", args...)
}
