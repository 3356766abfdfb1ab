package hsserver

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/cache"
	"github.com/binlogcache/binlogcache/internal/netserver"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// TestReadsDuringChanges has clients read rows and IN lists while whole transactions change them and the table is loaded
// again with its columns in another order. No answer shows half a transaction, or a column in another one's place, and
// requests that come together see one state.
func TestReadsDuringChanges(t *testing.T) {
	const rows = 8
	m := newMemory(t)
	row := func(b *rowcodec.Builder, swapped bool, id, n int) rowcodec.Row {
		b.Reset()
		v := [][]byte{fmt.Appendf(nil, "%d", id), fmt.Appendf(nil, "a%d", n), fmt.Appendf(nil, "b%d", n)}
		if swapped {
			v[1], v[2] = v[2], v[1]
		}
		for i := range v {
			b.Add(v[i])
		}
		return b.AppendRow(nil)
	}
	orders := [2][]string{{"a", "b"}, {"b", "a"}}
	load := func(swapped int, n int) *cache.Generation {
		def := tableOf("t", intColumn("id"), textColumn(orders[swapped][0]), textColumn(orders[swapped][1]))
		var text []string
		for id := range rows {
			v := []string{fmt.Sprintf("a%d", n), fmt.Sprintf("b%d", n)}
			text = append(text, fmt.Sprintf("%d,%s,%s", id, v[swapped], v[1-swapped]))
		}
		return m.load(t, def, text...)
	}
	g := load(0, 0)
	srv, err := netserver.New(netserver.Config{Listen: "127.0.0.1:0", Loops: 2, Protocol: New(Config{Reader: m})})
	if err != nil {
		t.Fatal(err)
	}
	if err := srv.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- srv.Run(context.Background()) }()

	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			c, err := net.Dial("tcp", srv.Addr().String())
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r := bufio.NewReader(c)
			request := "0\t=\t1\t3\n0\t=\t1\t\t8\t0\t@\t0\t4\t7\t0\t5\t2\n0\t>=\t1\t0\t100\t0\tF\t!=\t0\tx\n"
			fmt.Fprint(c, "P\t0\tapp\tt\tPRIMARY\tb,a\ta\n")
			if got, err := r.ReadString('\n'); got != done {
				t.Errorf("open: %q, %v", got, err)
				return
			}
			for {
				select {
				case <-stop:
					return
				default:
				}
				fmt.Fprint(c, request)
				seen := ""
				for i, want := range []int{1, 4, rows} {
					got, err := r.ReadString('\n')
					f := strings.Split(strings.TrimSuffix(got, "\n"), "\t")
					if strings.HasPrefix(got, "1\t1\tunavailable") {
						seen = ""
						continue // between two loads, and there is no database
					}
					if err != nil || len(f) != 2+2*want {
						t.Errorf("got %q, %v", got, err)
						return
					}
					for j := 2; j < len(f); j += 2 {
						if f[j] != f[2] || f[j+1] != f[3] || f[j][0] != 'b' || f[j+1] != "a"+f[j][1:] {
							t.Errorf("torn answer %q", got)
							return
						}
					}
					if i > 0 && seen != "" && seen != f[2] {
						t.Errorf("answer %d is of another state than the one before it: %s, %s", i, f[2], seen)
						return
					}
					seen = f[2]
				}
			}
		})
	}
	var b rowcodec.Builder
	n, swapped := 0, 0
	for end := time.Now().Add(time.Second); time.Now().Before(end) && !t.Failed(); n++ {
		if n%50 == 49 {
			swapped = 1 - swapped
			g = load(swapped, n)
		}
		var changes []rowcodec.Change
		for id := range rows {
			changes = append(changes, rowcodec.Change{Before: row(&b, swapped == 1, id, n), After: row(&b, swapped == 1, id, n+1)})
		}
		if err := g.Apply(changes, uint64(n+2)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	wg.Wait()
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	t.Logf("%d transactions", n)
}
