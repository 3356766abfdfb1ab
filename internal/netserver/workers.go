package netserver

import "sync"

// workers runs functions on at most max goroutines. A goroutine lives as long as there is something to do, so an idle
// server has none. The queue needs no bound of its own: a connection waits for its job before it queues another.
type workers struct {
	max int
	wg  sync.WaitGroup

	mu          sync.Mutex // guards what follows
	running     int
	first, last *queuedJob
}

type queuedJob struct {
	run  func()
	next *queuedJob
}

// run makes f run as soon as a worker is free. It never blocks. f must not panic.
func (w *workers) run(f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.running < w.max {
		w.running++
		w.wg.Go(func() { w.work(f) })
		return
	}
	q := &queuedJob{run: f}
	if w.last == nil {
		w.first = q
	} else {
		w.last.next = q
	}
	w.last = q
}

func (w *workers) work(f func()) {
	for f != nil {
		f()
		f = w.next()
	}
}

// next returns the job that waits longest; without one it ends the calling worker.
func (w *workers) next() func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := w.first
	if q == nil {
		w.running--
		return nil
	}
	w.first = q.next
	if w.first == nil {
		w.last = nil
	}
	return q.run
}

// wait returns when nothing runs or waits any more. run must not be called any more.
func (w *workers) wait() { w.wg.Wait() }
