package rowcodec_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// decodeError returns the first error of decoding the events.
func decodeError(t *testing.T, s source, table string, events []rowEvent) error {
	t.Helper()
	if len(events) == 0 {
		t.Fatal("no row events")
	}
	def := s.load(table)
	var arena rowcodec.Arena
	for _, e := range events {
		d, err := rowcodec.NewDecoder(def, e.rows.Table)
		if err != nil {
			return err
		}
		if err := d.DecodeEvent(e.header, e.rows, &arena, func(rowcodec.Change) error { return nil }); err != nil {
			return err
		}
	}
	return nil
}

func TestImagesThatLackColumns(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE a (id INT PRIMARY KEY, v INT, b BLOB)")
		s.exec("INSERT INTO a VALUES (1, 1, 'x'), (2, 2, 'y')")
		for _, image := range []string{"MINIMAL", "NOBLOB"} {
			for _, sql := range []string{"UPDATE a SET v = v + 1", "INSERT INTO a (id) VALUES (3)", "DELETE FROM a WHERE id = 3"} {
				if image == "NOBLOB" && strings.HasPrefix(sql, "INSERT") {
					sql = "INSERT INTO a (id, v) VALUES (3, 3)"
				}
				s.exec("SET SESSION binlog_row_image = " + image)
				events := s.record(func() { s.exec(sql) })
				s.exec("SET SESSION binlog_row_image = FULL")
				err := decodeError(t, s, "a", events)
				whole := err == nil && image == "NOBLOB" && strings.HasPrefix(sql, "INSERT")
				if !whole && (!errors.Is(err, rowcodec.ErrImage) || !strings.Contains(err.Error(), "binlog_row_image=FULL")) {
					t.Errorf("%s, %s: %v, want ErrImage that names the setting", image, sql, err)
				}
			}
		}
	})
}

func TestPartialJSON(t *testing.T) {
	s := openSource(t, testmysql.Shared(t, testmysql.MySQL))
	s.exec("CREATE TABLE a (id INT PRIMARY KEY, n INT, j JSON, k JSON)")
	s.exec("INSERT INTO a VALUES (1, 1, JSON_OBJECT('long', REPEAT('x', 300), 'n', 1), NULL), (2, 2, '[1]', '[2]')")
	s.exec("SET SESSION binlog_row_value_options = 'PARTIAL_JSON'")
	partial := s.record(func() { s.exec("UPDATE a SET j = JSON_SET(j, '$.n', 2) WHERE id = 1") })
	if err := decodeError(t, s, "a", partial); !errors.Is(err, rowcodec.ErrImage) || !strings.Contains(err.Error(), "binlog_row_value_options") {
		t.Errorf("partial update: %v, want ErrImage that names the setting", err)
	}
	// A new value is logged whole, under the same event type.
	var want [][][]byte
	whole := s.record(func() {
		s.exec(`UPDATE a SET n = 7, j = '{"new": true}', k = '[3, 4]' WHERE id = 2`)
		want = s.rows("SELECT * FROM a WHERE id = 2")
	})
	if len(whole) != 1 || whole[0].header.EventType != replication.PARTIAL_UPDATE_ROWS_EVENT {
		t.Fatalf("%d events, of type %v", len(whole), whole[0].header.EventType)
	}
	def := s.load("a")
	changes := s.decode(def, whole)
	if len(changes) != 1 {
		t.Fatalf("%d changes", len(changes))
	}
	newComparer(t, def).same("whole update", changes[0].After, want[0])
}

// TestHiddenColumns has columns that SELECT * or the catalog does not show: they must not shift the others.
func TestHiddenColumns(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		ddl := "CREATE TABLE a (`odd ``name` INT INVISIBLE, id INT PRIMARY KEY, v INT AS (id * 2) VIRTUAL, st VARCHAR(20) AS (CONCAT('s', id)) STORED, " +
			"`Größe` DECIMAL(5,2), KEY (v), KEY (`Größe`)"
		if !s.mariadb() {
			// Functional and multi-valued indexes have hidden columns.
			ddl += ", j JSON, KEY f ((id + 1)), UNIQUE KEY g ((`Größe` * 2), v DESC), KEY mv ((CAST(j AS UNSIGNED ARRAY)))"
		}
		s.exec(ddl + ")")
		def := s.load("a")
		if def.Refusal != "" {
			t.Fatal(def.Refusal)
		}
		var want [][][]byte
		events := s.record(func() {
			s.exec("INSERT INTO a (`odd ``name`, id, `Größe`) VALUES (9, 1, 1.5), (NULL, 2, -1)")
			if !s.mariadb() {
				s.exec("UPDATE a SET j = '[1, 2, 3]' WHERE id = 1")
			}
			s.exec("UPDATE a SET id = id + 10")
			want = s.rows("SELECT " + columnNames(def) + " FROM a ORDER BY id")
		})
		changes := s.decode(def, events)
		if len(changes) < 4 || len(want) != 2 {
			t.Fatalf("%d changes, %d rows", len(changes), len(want))
		}
		compare := newComparer(t, def)
		for i, row := range want {
			compare.same("update", changes[len(changes)-2+i].After, row)
		}
	})
}

// TestPartitions: events of a partitioned table say in their head which partition they are of.
func TestPartitions(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		s.exec("CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY HASH (id) PARTITIONS 3")
		def := s.load("a")
		var want [][][]byte
		events := s.record(func() {
			s.exec("INSERT INTO a VALUES (1, 'a'), (2, 'b'), (3, 'c')")
			s.exec("UPDATE a SET id = id + 10, v = CONCAT(v, v) ORDER BY id")
			want = s.rows("SELECT id, v FROM a")
		})
		rows := make(map[string]rowcodec.Row)
		for _, c := range s.decode(def, events) {
			if c.Before != nil {
				id, _ := c.Before.Value(0)
				delete(rows, string(id))
			}
			id, _ := c.After.Value(0)
			rows[string(id)] = c.After
		}
		if len(rows) != len(want) || len(want) != 3 {
			t.Fatalf("%d rows, want %d", len(rows), len(want))
		}
		compare := newComparer(t, def)
		for _, row := range want {
			compare.same("row", rows[string(row[0])], row)
		}
	})
}

// TestCallbackError: an error of the callback ends the work and comes back as it is.
func TestCallbackError(t *testing.T) {
	s := openSource(t, testmysql.Shared(t, testmysql.MySQL))
	s.exec("CREATE TABLE a (id INT PRIMARY KEY)")
	events := s.record(func() { s.exec("INSERT INTO a VALUES (1), (2), (3)") })
	d, err := rowcodec.NewDecoder(s.load("a"), events[0].rows.Table)
	if err != nil {
		t.Fatal(err)
	}
	stop := errors.New("stop")
	calls := 0
	var arena rowcodec.Arena
	err = d.DecodeEvent(events[0].header, events[0].rows, &arena, func(rowcodec.Change) error {
		calls++
		if calls == 2 {
			return stop
		}
		return nil
	})
	if err != stop || calls != 2 {
		t.Errorf("error %v after %d calls", err, calls)
	}
}
