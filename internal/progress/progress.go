// Package progress shows how far a long piece of work has come: a bar on a terminal, a line now and then elsewhere.
package progress

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// lineInterval is the time between two lines where there is no terminal.
const lineInterval = 2 * time.Second

// Bar is the progress of one piece of work. Its methods may be called from several goroutines.
type Bar struct {
	mu    sync.Mutex
	out   io.Writer
	title string
	total int64
	begun time.Time
	shown time.Time
	bar   *progressbar.ProgressBar // nil where out is no terminal
	done  bool
}

// New starts a bar on out. total is the amount of work, in units that title names.
func New(out io.Writer, title string, total int64) *Bar {
	b := &Bar{out: out, title: title, total: total, begun: time.Now(), shown: time.Now()}
	if IsTerminal(out) {
		b.bar = progressbar.NewOptions64(total,
			progressbar.OptionSetWriter(out), progressbar.OptionSetDescription(title), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetWidth(30),
			progressbar.OptionFullWidth(), progressbar.OptionUseANSICodes(true), progressbar.OptionOnCompletion(func() { fmt.Fprintln(out) }))
	}
	return b
}

// IsTerminal reports whether out is a terminal.
func IsTerminal(out io.Writer) bool {
	f, ok := out.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// Set says that n units are done. More than the total raises the total.
func (b *Bar) Set(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	if n > b.total {
		b.total = n
		if b.bar != nil {
			b.bar.ChangeMax64(n)
		}
	}
	if b.bar != nil {
		// A bar that can't be drawn must not stop the work.
		_ = b.bar.Set64(n)
		return
	}
	if time.Since(b.shown) >= lineInterval {
		b.shown = time.Now()
		fmt.Fprintf(b.out, "%s: %d of %d (%d %%)\n", b.title, n, b.total, 100*n/max(b.total, 1))
	}
}

// Done ends the bar; n units were done in the end.
func (b *Bar) Done(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done = true
	if b.bar != nil {
		b.bar.ChangeMax64(max(n, 1))
		_ = b.bar.Set64(max(n, 1))
		_ = b.bar.Finish()
		return
	}
	fmt.Fprintf(b.out, "%s: %d in %s\n", b.title, n, time.Since(b.begun).Round(10*time.Millisecond))
}
