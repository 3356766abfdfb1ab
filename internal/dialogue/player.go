package dialogue

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"
)

// Mode is how the bytes of a dialogue are sent.
type Mode uint8

// The modes.
const (
	Whole     Mode = iota // as they were recorded
	Bytewise              // one byte at a time
	Pipelined             // all requests up to the next line that is neither request nor answer, then all answers
)

func (m Mode) String() string { return [...]string{"whole", "bytewise", "pipelined"}[m] }

// recordedSchema is the schema that recordings use.
const recordedSchema = "dlg"

// Player plays dialogues against a server.
type Player struct {
	// DB is the database; each dialogue uses one session of it. Nil is for dialogues that need none.
	DB *sql.DB
	// Schema is dropped and made anew for each dialogue, and takes the place of "dlg" in what is sent, where that
	// stands between two tabs.
	Schema string
	// Dial opens a connection of a kind, such as "hsr".
	Dial func(ctx context.Context, kind string) (net.Conn, error)
	// Settle is called after changes by SQL, before the dialogue goes on; nil where nothing has to be waited for.
	Settle func(ctx context.Context) error
	Mode   Mode
	// Prepared says that the schema holds what the dialogue's SQL lines make, from an earlier Play: they are left out.
	Prepared bool
}

// Play runs one dialogue. The error names the file and the line where the server did otherwise.
func (p *Player) Play(ctx context.Context, d *Dialogue) error {
	r := &run{p: p, conns: map[string]*conn{}, vars: map[string][]byte{}, wait: 2 * time.Second}
	defer r.closeAll()
	if p.DB != nil {
		db, err := p.DB.Conn(ctx)
		if err != nil {
			return fmt.Errorf("%s: database session: %w", d.Path, err)
		}
		defer db.Close()
		r.db = db
		name := "`" + p.Schema + "`"
		stmts := []string{
			"DROP DATABASE IF EXISTS " + name, "CREATE DATABASE " + name + " CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", "USE " + name,
		}
		if p.Prepared {
			stmts = stmts[2:]
		}
		for _, stmt := range stmts {
			if _, err := db.ExecContext(ctx, stmt); err != nil {
				return fmt.Errorf("%s: %s: %w", d.Path, stmt, err)
			}
		}
	}
	lines := renamed(d.Lines, p.Schema)
	if p.Mode == Pipelined {
		lines = pipelined(lines)
	}
	for i := range lines {
		if err := r.step(ctx, &lines[i]); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", d.Path, lines[i].Number, p.Mode, err)
		}
	}
	for name, c := range r.conns {
		if rest := c.rest(); len(rest) > 0 {
			return fmt.Errorf("%s: %s: %s sent more at the end: %q", d.Path, p.Mode, name, rest)
		}
	}
	return nil
}

// pipelined moves requests in front of the answers that stand between them.
func pipelined(lines []Line) []Line {
	out := make([]Line, 0, len(lines))
	var answers []Line
	for _, l := range lines {
		switch l.Kind {
		case Expect, Match:
			answers = append(answers, l)
			continue
		case Send:
		default:
			out = append(out, answers...)
			answers = answers[:0]
		}
		out = append(out, l)
	}
	return append(out, answers...)
}

// renamed replaces the recorded schema in requests. A request may be sent in several pieces, so pieces that follow each
// other are searched as one; the new name goes where the old one began.
func renamed(lines []Line, schema string) []Line {
	out := append([]Line(nil), lines...)
	if schema == recordedSchema {
		return out
	}
	old := []byte("\t" + recordedSchema + "\t")
	for i := 0; i < len(out); i++ {
		if out[i].Kind != Send {
			continue
		}
		end := i
		var all []byte
		for ; end < len(out) && out[end].Kind == Send; end++ {
			all = append(all, out[end].Data...)
		}
		hidden := make([]bool, len(all)) // belongs to an old name
		for from := 0; ; {
			n := bytes.Index(all[from:], old)
			if n < 0 {
				break
			}
			from += n + 1
			for j := range len(recordedSchema) {
				hidden[from+j] = true
			}
			from += len(recordedSchema)
		}
		pos := 0
		for ; i < end; i++ {
			var data []byte
			for range out[i].Data {
				switch {
				case !hidden[pos]:
					data = append(data, all[pos])
				case !hidden[pos-1]: // a tab stands before a name
					data = append(data, schema...)
				}
				pos++
			}
			out[i].Data = data
		}
	}
	return out
}

// run is one dialogue being played.
type run struct {
	p       *Player
	db      *sql.Conn
	conns   map[string]*conn
	current string
	wait    time.Duration
	dirty   bool // SQL has changed something since the last Settle
	// of the lines of memcached
	last  []byte            // the last answer
	vars  map[string][]byte // kept with let:
	found []string          // read with lines:
}

func (r *run) closeAll() {
	for _, c := range r.conns {
		_ = c.Close() // the dialogue is over
	}
}

func (r *run) settle(ctx context.Context) error {
	if !r.dirty || r.p.Settle == nil {
		return nil
	}
	r.dirty = false
	if err := r.p.Settle(ctx); err != nil {
		return fmt.Errorf("wait for the server to follow: %w", err)
	}
	return nil
}

func (r *run) step(ctx context.Context, l *Line) error {
	switch l.Kind {
	case SQL:
		if r.p.Prepared {
			return nil
		}
		r.dirty = true
		_, err := r.db.ExecContext(ctx, l.Text)
		return err
	case Rows:
		if err := r.settle(ctx); err != nil {
			return err
		}
		return r.rows(ctx, l)
	case Timeout:
		r.wait = l.Wait
		return nil
	case Use:
		name := l.Text
		if name == "" {
			name = unnamed
		}
		if r.conns[name] == nil {
			return fmt.Errorf("no connection %s", l.Text)
		}
		r.current = name
		return nil
	case Sleep:
		time.Sleep(l.Wait)
		return nil
	case Let:
		return r.let(l)
	case Has:
		return r.has(l)
	}
	if err := r.settle(ctx); err != nil {
		return err
	}
	if l.Kind == Open {
		return r.open(ctx, l)
	}
	c, name := r.conns[r.current], r.current
	if l.Kind == Close && l.Text != "" {
		c, name = r.conns[l.Text], l.Text
	}
	if c == nil {
		return errors.New("no such connection is open")
	}
	switch l.Kind {
	case Send:
		return c.send(r.filled(l.Data), r.p.Mode == Bytewise)
	case Expect:
		r.last = r.filled(l.Data)
		return c.expect(r.last, r.wait)
	case Match:
		line, err := c.match(l, r.wait)
		r.last = line
		return err
	case Quiet:
		return c.quiet(l.Wait)
	case Drop:
		c.fill(l.Wait, func() bool { return false })
		c.got = nil
		return nil
	case Binary:
		return r.binary(c, l)
	case Lines:
		return r.lines(c, l)
	case EOF:
		return c.expectEnd(r.wait)
	case Close:
		delete(r.conns, name)
		return c.Close()
	default:
		return fmt.Errorf("unknown kind of line %d", l.Kind)
	}
}

func (r *run) open(ctx context.Context, l *Line) error {
	if r.conns[l.Name] != nil {
		return fmt.Errorf("connection %s is open already", l.Name)
	}
	nc, err := r.p.Dial(ctx, l.Text)
	if err != nil {
		return fmt.Errorf("connect to %s: %w", l.Text, err)
	}
	r.current = l.Name
	r.conns[l.Name] = &conn{Conn: nc}
	return nil
}

// rows compares what a query gives.
func (r *run) rows(ctx context.Context, l *Line) error {
	rows, err := r.db.QueryContext(ctx, l.Text)
	if err != nil {
		return err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	got := [][]*string{}
	for rows.Next() {
		values := make([]sql.RawBytes, len(names))
		at := make([]any, len(names))
		for i := range values {
			at[i] = &values[i]
		}
		if err := rows.Scan(at...); err != nil {
			return err
		}
		row := make([]*string, len(names))
		for i, v := range values {
			if v != nil {
				s := string(v)
				row[i] = &s
			}
		}
		got = append(got, row)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	want, err := json.Marshal(l.Want)
	if err != nil {
		return err
	}
	shown, err := json.Marshal(got)
	if err != nil {
		return err
	}
	if !bytes.Equal(shown, want) {
		return fmt.Errorf("expected rows %s, got %s", want, shown)
	}
	return nil
}

// conn is one connection with what has come and was not expected yet.
type conn struct {
	net.Conn
	got   []byte
	ended error
}

func (c *conn) send(data []byte, bytewise bool) error {
	if !bytewise {
		_, err := c.Write(data)
		return err
	}
	for i := range data {
		if _, err := c.Write(data[i : i+1]); err != nil {
			return err
		}
	}
	return nil
}

// fill reads until enough says so, the connection ends, or the time is over.
func (c *conn) fill(wait time.Duration, enough func() bool) {
	if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
		c.ended = err
	}
	buf := make([]byte, 64<<10)
	for c.ended == nil && !enough() {
		n, err := c.Read(buf)
		c.got = append(c.got, buf[:n]...)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		c.ended = err
	}
}

func (c *conn) expect(want []byte, wait time.Duration) error {
	c.fill(wait, func() bool { return len(c.got) >= len(want) })
	if bytes.HasPrefix(c.got, want) {
		c.got = c.got[len(want):]
		return nil
	}
	got := c.got[:min(len(c.got), len(want)+300)]
	if end := bytes.IndexByte(got, '\n'); end >= 0 && bytes.Count(want, []byte("\n")) <= 1 {
		got = got[:end+1]
	}
	return fmt.Errorf("expected %q, got %q%s", want, got, c.how())
}

func (c *conn) how() string {
	switch {
	case c.ended == nil:
		return ""
	case errors.Is(c.ended, io.EOF):
		return " and the end"
	default:
		return " and " + c.ended.Error()
	}
}

func (c *conn) match(l *Line, wait time.Duration) ([]byte, error) {
	got := c.line(wait)
	if !l.Pattern.Match(got) {
		return got, fmt.Errorf("expected a match of %s, got %q%s", strconv.Quote(string(l.Data)), got, c.how())
	}
	return got, nil
}

// line takes one line, or what there is when the time is over.
func (c *conn) line(wait time.Duration) []byte {
	c.fill(wait, func() bool { return bytes.IndexByte(c.got, '\n') >= 0 })
	end := bytes.IndexByte(c.got, '\n') + 1
	if end == 0 {
		end = len(c.got)
	}
	got := c.got[:end]
	c.got = c.got[end:]
	return got
}

func (c *conn) expectEnd(wait time.Duration) error {
	c.fill(wait, func() bool { return false })
	if len(c.got) > 0 || c.ended == nil {
		return fmt.Errorf("expected the end, got %q%s", c.got, c.how())
	}
	return nil
}

// rest returns what has come and nobody expected.
func (c *conn) rest() []byte {
	c.fill(20*time.Millisecond, func() bool { return false })
	return c.got
}
