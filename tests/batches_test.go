package tests

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/internal/testmysql"
)

// TestBatchesSeeOneState: transactions move amounts between the rows of tables. Finds that a client sends together see one
// state of each table: the sum of a table's rows is always the same, and so is each row in all finds of it. The tables
// are two live ones and a hot one whose rows are kept.
func TestBatchesSeeOneState(t *testing.T) {
	const rows, total = 4, 1000
	for _, s := range testmysql.Servers(t) {
		t.Run(s.Flavor, func(t *testing.T) {
			t.Parallel()
			schema := s.Schema(t)
			db := s.DB(t)
			tables := []string{"live1", "live2", "hot"}
			for _, table := range tables {
				mustExec(t, db, "CREATE TABLE "+schema+"."+table+" (id INT PRIMARY KEY, amount INT NOT NULL)")
				for id := range rows {
					mustExec(t, db, "INSERT INTO "+schema+"."+table+" VALUES (?,?)", id, total/rows)
				}
			}
			d := start(t, s.DSN, schema+".live*").waitReady()

			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var wg sync.WaitGroup
			defer wg.Wait()
			defer stop()
			move := func(table string, from, to, n int) error {
				tx, err := db.BeginTx(ctx, nil)
				if err != nil {
					return err
				}
				defer tx.Rollback() //nolint:errcheck // after Commit it says that it is done
				for _, c := range []struct{ id, n int }{{from, -n}, {to, n}} {
					if _, err := tx.ExecContext(ctx, "UPDATE "+schema+"."+table+" SET amount = amount + ? WHERE id = ?", c.n, c.id); err != nil {
						return err
					}
				}
				return tx.Commit()
			}
			for i, table := range tables {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(1, uint64(i)))
					for ctx.Err() == nil {
						from := rng.IntN(rows - 1)
						if err := move(table, from, from+1+rng.IntN(rows-1-from), 1+rng.IntN(9)); err != nil && ctx.Err() == nil {
							t.Errorf("%s: %v", table, err)
							return
						}
					}
				})
			}

			// Rows of one table alone, rows of all by turns, ranges, lists, and other requests that change nothing between.
			var open []string
			for i, table := range tables {
				open = append(open, fmt.Sprintf("P\t%d\t%s\t%s\tPRIMARY\tid,amount", i, schema, table))
			}
			one := func(i, id int) string { return fmt.Sprintf("%d\t=\t1\t%d", i, id) }
			list := func(i int) string { return fmt.Sprintf("%d\t=\t1\t\t9\t0\t@\t0\t4\t3\t2\t1\t0", i) }
			all := func(i int) string { return fmt.Sprintf("%d\t>=\t1\t0\t9\t0", i) }
			var single, mixed, hot []string
			for n := range 5 * rows {
				single = append(single, one(0, n%rows))
				hot = append(hot, one(2, n%rows), list(2))
				mixed = append(mixed, one(0, n%rows), list(1), one(1, n%rows), "9\tx", all(0), one(2, n%rows))
			}
			c, err := dialHS(d.handlerSocket)
			if err != nil {
				t.Fatal(err)
			}
			defer c.conn.Close()
			if _, err := c.batch(append(open, hot...)...); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all rows are kept", func() error {
				before := d.status().Reads.HandlerSocket.Database
				if _, err := c.batch(hot...); err != nil {
					t.Fatal(err)
				}
				if n := d.status().Reads.HandlerSocket.Database - before; n > 0 {
					return fmt.Errorf("%d reads of the database", n)
				}
				return nil
			})
			before := d.status().Reads.HandlerSocket.Database

			var readers sync.WaitGroup
			for i := range 4 {
				readers.Go(func() {
					states, err := readBatches(d, open, [][]string{single, mixed, hot}, uint64(i), func(amounts []int) bool {
						return len(amounts) == rows && amounts[0]+amounts[1]+amounts[2]+amounts[3] == total
					})
					if err != nil {
						t.Error(err)
					}
					t.Logf("%d states", states)
				})
			}
			readers.Wait()
			if n := d.status().Reads.HandlerSocket.Database - before; n > 0 {
				t.Errorf("%d reads of the database", n)
			}
		})
	}
}

// readBatches sends batches for two seconds, and until it has seen ten states, and looks at what they show.
func readBatches(d *daemon, open []string, batches [][]string, seed uint64, right func(amounts []int) bool) (states int, err error) {
	c, err := dialHS(d.handlerSocket)
	if err != nil {
		return 0, err
	}
	defer c.conn.Close()
	if _, err := c.batch(open...); err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(2, seed))
	last := ""
	for begun := time.Now(); time.Since(begun) < 2*time.Second || states < 10; {
		if time.Since(begun) > settleTimeout {
			return states, errors.New("the tables don't change")
		}
		requests := batches[rng.IntN(len(batches))]
		answers, err := c.batch(requests...)
		if err != nil {
			return states, err
		}
		seen, err := oneState(requests, answers)
		if err != nil {
			return states, fmt.Errorf("%w\n%q", err, answers)
		}
		for table, byID := range seen {
			var amounts []int
			for _, n := range byID {
				amounts = append(amounts, n)
			}
			if !right(amounts) {
				return states, fmt.Errorf("table %s is in no state that it ever had: %v\n%q", table, byID, answers)
			}
		}
		if now := fmt.Sprint(seen); now != last {
			last = now
			states++
		}
	}
	return states, nil
}

// oneState gives the rows that the answers to finds show, by table and id, when they show each in one state only.
func oneState(requests, answers []string) (map[string]map[int]int, error) {
	seen := map[string]map[int]int{}
	for i, a := range answers {
		table, _, _ := strings.Cut(requests[i], "\t")
		if table == "9" {
			if a != "2\t1\tstmtnum" {
				return nil, fmt.Errorf("answer to %q: %q", requests[i], a)
			}
			continue
		}
		f := strings.Split(a, "\t")
		if len(f) < 4 || !slices.Equal(f[:2], []string{"0", "2"}) {
			return nil, fmt.Errorf("answer to %q: %q", requests[i], a)
		}
		if seen[table] == nil {
			seen[table] = map[int]int{}
		}
		for f = f[2:]; len(f) >= 2; f = f[2:] {
			id, err := strconv.Atoi(f[0])
			if err != nil {
				return nil, err
			}
			amount, err := strconv.Atoi(f[1])
			if err != nil {
				return nil, err
			}
			if before, ok := seen[table][id]; ok && before != amount {
				return nil, fmt.Errorf("answer %d to %q: row %d has %d, and %d before", i, requests[i], id, amount, before)
			}
			seen[table][id] = amount
		}
	}
	return seen, nil
}
