package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// handlerSocketTest lets clients read rows of bench.user by their id, and add rows, by SQL and over HandlerSocket.
type handlerSocketTest struct {
	sql, read, write, out string
	rows, requests, runs  int
	clients               []int
}

// columns of an insert; the id is made by the database.
const userColumns = "uname,email,add_time"

// userReader reads random rows and looks whether the right one comes.
type userReader struct {
	sql  *sqlWire
	hs   *hsWire
	rows int
	rnd  *rand.Rand
}

func (u *userReader) close() {
	if u.sql != nil {
		u.sql.close()
	} else {
		u.hs.close()
	}
}

func (u *userReader) do(int) error {
	id := strconv.Itoa(1 + u.rnd.IntN(u.rows))
	var got string
	if u.sql != nil {
		err := u.sql.query("SELECT uname, email, add_time FROM user WHERE id = "+id, func(f []string) { got = f[0] })
		if err != nil {
			return err
		}
	} else {
		u.hs.out = fmt.Appendf(u.hs.out[:0], "1\t=\t1\t%s\n", id)
		answer, err := u.hs.ask()
		if err != nil {
			return err
		}
		if f := strings.Split(answer, "\t"); len(f) == 6 && f[0] == "0" {
			got = f[3]
		}
	}
	if got != "name_"+id {
		return fmt.Errorf("id %s: the answer is of %q", id, got)
	}
	return nil
}

// userWriter adds rows whose names are all different, and keeps the ids that it is told.
type userWriter struct {
	sql  *sqlWire
	hs   *hsWire
	name string
	ids  []uint64 // by number of the request
}

func (u *userWriter) close() {
	if u.sql != nil {
		u.sql.close()
	} else {
		u.hs.close()
	}
}

func (u *userWriter) do(n int) (err error) {
	var id uint64
	if u.sql != nil {
		id, err = u.sql.exec(fmt.Sprintf("INSERT INTO user (%s) VALUES ('%s_%d', 'x@example.com', '2024-05-06 07:08:09')", userColumns, u.name, n))
		if err != nil {
			return err
		}
	} else {
		u.hs.out = fmt.Appendf(u.hs.out[:0], "1\t+\t3\t%s_%d\tx@example.com\t2024-05-06 07:08:09\n", u.name, n)
		answer, err := u.hs.ask()
		if err != nil {
			return err
		}
		rest, ok := strings.CutPrefix(answer, "0\t1\t")
		if !ok {
			return fmt.Errorf("the answer is %q", answer)
		}
		if id, err = strconv.ParseUint(rest, 10, 64); err != nil {
			return err
		}
	}
	u.ids[n] = id
	return nil
}

// faults counts what went wrong with rows that were acknowledged.
type faults struct{ lost, doubled, wrong int }

func (t *handlerSocketTest) run() error {
	report := filepath.Join(t.out, "seed-handlersocket.md")
	_ = os.Remove(report)
	wires := []string{"SQL", "HandlerSocket"}
	all := map[string]map[int][]timing{} // by operation and wire, then clients
	var bad faults
	for round := range t.runs {
		for k, n := range t.clients {
			for _, op := range []string{"read", "write"} {
				for i := range wires {
					wire := wires[(i+round+k)%2] // none always goes first
					took, f, err := t.one(op, wire, n, fmt.Sprintf("w%d_%d_%s", round, n, wire[:1]))
					if err != nil {
						return fmt.Errorf("%s by %s, %d clients: %w", op, wire, n, err)
					}
					if all[op+wire] == nil {
						all[op+wire] = map[int][]timing{}
					}
					all[op+wire][n] = append(all[op+wire][n], took)
					bad = faults{bad.lost + f.lost, bad.doubled + f.doubled, bad.wrong + f.wrong}
					say("round %d of %d: %s by %s, %d clients: %.1f s, %.0f a second", round+1, t.runs, op, wire, n, took.total.Seconds(), rate(n*t.requests, took.total))
				}
			}
		}
	}
	var rows [][]string
	for _, op := range []string{"read", "write"} {
		plot := map[string][]float64{}
		for _, n := range t.clients {
			sql := median(all[op+"SQL"][n])
			for _, wire := range wires {
				m := median(all[op+wire][n])
				rows = append(rows, []string{
					op, strconv.Itoa(n), wire, seconds(m.min), seconds(m.max), seconds(m.mean), seconds(m.total),
					fmt.Sprintf("%.0f", rate(n*t.requests, m.total)), fmt.Sprintf("%.2f", sql.total.Seconds()/m.total.Seconds()),
				})
				plot[wire] = append(plot[wire], m.total.Seconds())
			}
		}
		title := fmt.Sprintf("%ss of `user`, %d for each client", op, t.requests)
		if err := chart(filepath.Join(t.out, "seed-handlersocket-"+op+".svg"), strings.ReplaceAll(title, "`", ""), "clients", "seconds for all", t.clients,
			[]line{{"SQL", plot["SQL"]}, {"HandlerSocket, binlogcache", plot["HandlerSocket"]}}, false); err != nil {
			return err
		}
	}
	title := fmt.Sprintf("Table `user` of %d rows, %d requests of each client, median of %d (seconds of one client: min, max, average; of all: total)", t.rows, t.requests, t.runs)
	if err := table(report, title, []string{"", "clients", "by", "min", "max", "average", "total", "a second", "×"}, rows); err != nil {
		return err
	}
	if err := table(report, "Acknowledged rows, counted by SQL and read again over HandlerSocket", []string{"lost", "doubled", "wrong"},
		[][]string{{strconv.Itoa(bad.lost), strconv.Itoa(bad.doubled), strconv.Itoa(bad.wrong)}}); err != nil {
		return err
	}
	if bad != (faults{}) {
		return fmt.Errorf("rows were lost, doubled or wrong: %+v", bad)
	}
	return nil
}

func (t *handlerSocketTest) one(op, wire string, n int, name string) (timing, faults, error) {
	writers := make([]*userWriter, n)
	dial := func(i int) (client, error) {
		var (
			sql *sqlWire
			hs  *hsWire
			err error
		)
		switch {
		case wire == "SQL":
			sql, err = dialSQL(t.sql)
		case op == "read":
			hs, err = dialHS(t.read, "id,"+userColumns)
		default:
			hs, err = dialHS(t.write, userColumns)
		}
		if op == "read" {
			return &userReader{sql: sql, hs: hs, rows: t.rows, rnd: rand.New(rand.NewPCG(uint64(i), uint64(time.Now().UnixNano())))}, err
		}
		writers[i] = &userWriter{sql: sql, hs: hs, name: fmt.Sprintf("%s%d", name, i), ids: make([]uint64, t.requests)}
		return writers[i], err
	}
	if op == "read" {
		took, err := run(n, t.requests, dial)
		return took, faults{}, err
	}
	check, err := dialSQL(t.sql)
	if err != nil {
		return timing{}, faults{}, err
	}
	defer check.close()
	last, err := number(check, "SELECT MAX(id) FROM user")
	if err != nil {
		return timing{}, faults{}, err
	}
	took, err := run(n, t.requests, dial)
	if err != nil {
		return timing{}, faults{}, err
	}
	f, err := t.count(check, last, writers)
	return took, f, err
}

func number(s *sqlWire, query string) (n int, err error) {
	var text string
	if err = s.query(query, func(f []string) { text = f[0] }); err != nil {
		return 0, err
	}
	return strconv.Atoi(text)
}

// count compares the rows after id last with what the writers were told: by SQL, and in the memory of the daemon, which an
// acknowledged row must be in. A row by SQL gets there within a moment.
func (t *handlerSocketTest) count(s *sqlWire, last int, writers []*userWriter) (f faults, err error) {
	want := map[string]string{} // name by id
	for _, w := range writers {
		for n, id := range w.ids {
			want[strconv.FormatUint(id, 10)] = fmt.Sprintf("%s_%d", w.name, n)
		}
	}
	acknowledged := len(writers) * t.requests
	seen := make(map[string]bool, acknowledged) // names
	err = s.query(fmt.Sprintf("SELECT id, uname FROM user WHERE id > %d", last), func(r []string) {
		if seen[r[1]] {
			f.doubled++
		}
		seen[r[1]] = true
		if want[r[0]] != r[1] {
			f.wrong++
		}
	})
	if err != nil {
		return f, err
	}
	f.lost = acknowledged - len(seen)
	if writers[0].sql != nil {
		time.Sleep(500 * time.Millisecond)
	}
	h, err := dialHS(t.read, "id,"+userColumns)
	if err != nil {
		return f, err
	}
	defer h.close()
	ids := slices.Collect(maps.Keys(want))
	for batch := range slices.Chunk(ids, 500) {
		h.out = h.out[:0]
		for _, id := range batch {
			h.out = fmt.Appendf(h.out, "1\t=\t1\t%s\n", id)
		}
		if err := h.send(); err != nil {
			return f, err
		}
		for _, id := range batch {
			answer, err := h.answer()
			if err != nil {
				return f, err
			}
			if !strings.HasPrefix(answer, "0\t4\t"+id+"\t"+want[id]+"\t") {
				f.wrong++
			}
		}
	}
	return f, nil
}
