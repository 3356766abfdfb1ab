package mcserver

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/binlogcache/binlogcache/rowcodec"
	"github.com/binlogcache/binlogcache/schema"
)

// agedList is a table whose memory has an age.
type agedList struct {
	*listTable
	memoryAge time.Duration // 0: not known
	wanted    time.Duration
	newest    int
	newestErr error
}

func (t *agedList) MemoryAge() (time.Duration, bool) { return t.memoryAge, t.memoryAge != 0 }
func (t *agedList) WantAge(bound time.Duration)      { t.wanted = bound }
func (t *agedList) Trace(_ *schema.Table, row rowcodec.Row, version uint64) Trace {
	v, _ := row.Value(0)
	if string(v) != "AA" || version != 1000 {
		return Trace{Origin: "wrong-row"}
	}
	return Trace{Origin: "stream", Applied: time.Now().Add(-5 * time.Second)}
}

func (t *agedList) SearchNewest(ctx context.Context, s *schema.Search, emit func(rowcodec.Row) bool) error {
	t.newest++
	if t.newestErr != nil {
		return t.newestErr
	}
	return t.SearchDatabase(ctx, s, emit)
}

type agedReader struct{ *agedList }

func (r agedReader) Open(context.Context, string, string) (Table, error) { return r.agedList, nil }

// TestAge: the flag L shows and bounds the age of rows, and is passed over in all other cases.
func TestAge(t *testing.T) {
	table := &agedList{listTable: makeTable(t, "demo", []string{"k varchar(32)", "v varchar(40)"}, "AA,HELLO")}
	s := New(Config{Reader: agedReader{table}})
	if _, err := s.SetContainers(t.Context(), ContainerSet{Containers: []Container{{Name: "demo", Schema: "app", Table: "demo", KeyColumns: []string{"k"}, ValueColumns: []string{"v"}}}}); err != nil {
		t.Fatal(err)
	}
	const (
		memory = iota
		database
	)
	down := errors.Join(ErrUnavailable, errors.New("refused"))
	for _, tt := range []struct {
		in, want string
		age      time.Duration
		from     int
		err      error
		wanted   time.Duration
	}{
		{in: "mg AA v Lage", want: "VA 5 Lage=38\r\nHELLO", age: 37200 * time.Microsecond},
		{in: "mg AA v Lage", want: "VA 5 Lage=-1\r\nHELLO"},
		{in: "mg AA v k Lage s", want: "VA 5 kAA Lage=1 s5\r\nHELLO", age: 1},
		{in: "mg AA v Lage=38", want: "VA 5 Lage=38\r\nHELLO", age: 37200 * time.Microsecond, wanted: 38 * time.Millisecond},
		{in: "mg AA v Lage=37", want: "VA 5 Lage=0\r\nHELLO", age: 37200 * time.Microsecond, from: database, wanted: 37 * time.Millisecond},
		{in: "mg AA v Lage=0", want: "VA 5 Lage=0\r\nHELLO", age: 1, from: database},
		{in: "mg AA v Lage=99", want: "VA 5 Lage=0\r\nHELLO", from: database, wanted: 99 * time.Millisecond},
		{in: "mg AA v Lage=18446744073709551615", want: "VA 5 Lage=100\r\nHELLO", age: 99 * time.Millisecond, wanted: 36500 * 24 * time.Hour},
		{in: "mg ZZ v Lage=50 O7 k", want: "EN Lage=31 O7 kZZ", age: 30 * time.Millisecond, wanted: 50 * time.Millisecond},
		{in: "mg ZZ v Lage=5 O7 k", want: "EN Lage=0 O7 kZZ", age: 30 * time.Millisecond, from: database, wanted: 5 * time.Millisecond},
		{in: "mg ZZ v q Lage=5\r\nmn", want: "MN", age: 30 * time.Millisecond, from: database, wanted: 5 * time.Millisecond},
		{in: "mg " + strings.Repeat("Z", 40) + " v Lage=5", want: "EN Lage=0", age: time.Second},
		// Nobody can say anything: no statement about the row, and q does not hide it.
		{in: "mg AA v O7 Lage=5", want: "EN O7 Lage=-1", age: 30 * time.Millisecond, from: database, err: down, wanted: 5 * time.Millisecond},
		{in: "mg AA v q O7 Lage=5", want: "EN O7 Lage=-1", age: 30 * time.Millisecond, from: database, err: down, wanted: 5 * time.Millisecond},
		{in: "mg AA v Lage=5", want: "EN Lage=-1", age: 30 * time.Millisecond, from: database, err: ErrChanged, wanted: 5 * time.Millisecond},
		{in: "mg AA v Lage=5", want: "SERVER_ERROR no privilege", age: 30 * time.Millisecond, from: database, err: errors.New("no privilege"), wanted: 5 * time.Millisecond},
		{in: "mg AA v Lage=50", want: "VA 5 Lage=31\r\nHELLO", age: 30 * time.Millisecond, err: down, wanted: 50 * time.Millisecond},
		// What others mean by L and P.
		{in: "mg AA v L P", want: "VA 5\r\nHELLO", age: 1},
		{in: "mg AA v Lzone1 Page=0", want: "VA 5\r\nHELLO", age: 1},
		{in: "mg AA v Lages=0", want: "VA 5\r\nHELLO", age: 1},
		{in: "mg AA v LAge=0", want: "VA 5\r\nHELLO", age: 1},
		{in: "mg AA v Lage Lage=5", want: errMetaDuplicate, age: 1},
		{in: "mg AA v Lage=", want: errMetaToken, age: 1},
		{in: "mg AA v Lage=-1", want: errMetaToken, age: 1},
		{in: "mg AA v Lage=1.5", want: errMetaToken, age: 1},
		{in: "mg @@demo v Lage", want: "VA 8\r\napp/demo", age: time.Second},
		{in: "me AA", want: "ME AA exp=-1 la=0 cas=1000 fetch=yes cls=0 size=5 version=1000 origin=stream age=31 applied=500", age: 30 * time.Millisecond},
		{in: "me ZZ", want: "EN", age: 1},
	} {
		table.memoryAge, table.newestErr, table.newest, table.wanted = tt.age, tt.err, 0, 0
		c := newConn(s)
		if got := c.send(t, tt.in+"\r\n"); !strings.HasPrefix(got, tt.want) || !strings.HasPrefix(tt.in, "me A") && got != tt.want+"\r\n" {
			t.Errorf("%s: %q, want %q", tt.in, got, tt.want)
		}
		asked := memory
		if table.newest > 0 {
			asked = database
		}
		if asked != tt.from || table.wanted != tt.wanted {
			t.Errorf("%s: asked of %d, want %d; wanted %v, want %v", tt.in, asked, tt.from, table.wanted, tt.wanted)
		}
	}
	// Without memory me tells what the database says, and where it is not there, that.
	table.inMemory.Store(false)
	table.newestErr = nil
	if got, want := newConn(s).send(t, "me AA\r\nmg AA v Lage\r\n"), "ME AA exp=-1 la=0 cas=0 fetch=yes cls=0 size=5 version=0 origin=database age=0 applied=-1\r\nVA 5 Lage=0\r\nHELLO\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	table.newestErr = down
	if got := newConn(s).send(t, "me AA\r\nmg AA v Lage\r\nme AA Lage=1\r\n"); strings.Count(got, "SERVER_ERROR ") != 3 || strings.Count(got, "\r\n") != 3 {
		t.Errorf("%q", got)
	}
}

// TestAgeUnknown: a table that can't tell its age shows none, and its database answers where there is a bound.
func TestAgeUnknown(t *testing.T) {
	s, reader := demoServer(t, CompatSafe)
	c := newConn(s)
	if got, want := c.send(t, "mg AA v Lage\r\nmg AA v Lage=1000\r\n"), "VA 5 Lage=-1\r\nHELLO\r\nVA 5 Lage=0\r\nHELLO\r\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if n := reader["app.demo"].searches.Load(); n != 1 {
		t.Errorf("%d searches of the database", n)
	}
}
