package rowcodec_test

import (
	"errors"
	"testing"

	"github.com/go-mysql-org/go-mysql/replication"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/rowcodec"
)

// shapeChange is an ALTER after which images must not be decoded by the definition of before.
type shapeChange struct {
	flavor string
	alter  string
	// untold is true for changes that only binlog_row_metadata=FULL tells, minimal for those that MINIMAL tells, too.
	untold, minimal bool
}

const shapeTable = "(id INT PRIMARY KEY, a INT, b INT, u INT UNSIGNED, v VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, c CHAR(10), e ENUM('x','y'), s SET('p','q'), " +
	"d DECIMAL(10,2), t DATETIME, n INT NOT NULL DEFAULT 0, bl BLOB, bi BIT(5), bn BINARY(4), e2 ENUM('l1','l2') CHARACTER SET latin1) CHARACTER SET utf8mb4"

func shapeChanges() []shapeChange {
	return []shapeChange{
		{alter: "ADD COLUMN z INT"},
		{alter: "ADD COLUMN z INT FIRST"},
		{alter: "DROP COLUMN b"},
		{alter: "RENAME COLUMN a TO a2", untold: true},
		{alter: "MODIFY b INT AFTER id", untold: true},
		{alter: "MODIFY a BIGINT"},
		{alter: "MODIFY u INT", minimal: true},
		{alter: "MODIFY a INT UNSIGNED", minimal: true},
		{alter: "MODIFY v VARCHAR(21) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"},
		{alter: "MODIFY v VARCHAR(80) CHARACTER SET latin1 COLLATE latin1_bin", minimal: true},
		{alter: "MODIFY v VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci", minimal: true},
		{alter: "MODIFY v VARBINARY(80)", minimal: true},
		{alter: "MODIFY c CHAR(11)"},
		{alter: "MODIFY c BINARY(40)", minimal: true},
		{alter: "MODIFY e ENUM('y','x')", untold: true},
		{alter: "MODIFY e ENUM('x','y','z')", untold: true},
		{alter: "MODIFY e ENUM('x','y') CHARACTER SET latin1", untold: true},
		{alter: "MODIFY s SET('p','r')", untold: true},
		{alter: "MODIFY d DECIMAL(10,3)"},
		{alter: "MODIFY d DECIMAL(12,2)"},
		{alter: "MODIFY t DATETIME(3)"},
		{alter: "MODIFY t TIMESTAMP NULL"},
		{alter: "MODIFY n INT NULL DEFAULT 0"},
		{alter: "MODIFY bl LONGBLOB"},
		{alter: "MODIFY bl TEXT", minimal: true},
		{alter: "MODIFY bi BIT(6)"},
		{alter: "MODIFY bn BINARY(5)"},
		{alter: "DROP PRIMARY KEY, ADD PRIMARY KEY (n)", untold: true},
		{flavor: testmysql.MySQL, alter: "ALTER COLUMN a SET INVISIBLE", untold: true},
	}
}

// firstMap returns the table map of an insert into the table.
func firstMap(t *testing.T, s source, table string) *replication.TableMapEvent {
	t.Helper()
	events := s.record(func() {
		s.exec("INSERT INTO " + table + " (id) VALUES (1)")
		s.exec("DELETE FROM " + table)
	})
	if len(events) != 2 {
		t.Fatalf("%d row events", len(events))
	}
	return events[0].rows.Table
}

// checkShapes makes each change and sees whether the definition of before is refused, and that of after taken.
func checkShapes(t *testing.T, s source, seen func(shapeChange) bool) {
	t.Helper()
	for _, change := range shapeChanges() {
		if change.flavor != "" && change.flavor != s.Flavor() {
			continue
		}
		s.exec("CREATE TABLE a " + shapeTable)
		def := s.load("a")
		first := firstMap(t, s, "a")
		d, err := rowcodec.NewDecoder(def, first)
		if err != nil {
			t.Fatal(err)
		}
		s.exec("ALTER TABLE a " + change.alter)
		second := firstMap(t, s, "a")
		_, err = rowcodec.NewDecoder(def, second)
		if seen(change) && !errors.Is(err, rowcodec.ErrShape) {
			t.Errorf("%s: the definition of before is taken (%v)", change.alter, err)
		}
		if !seen(change) && err != nil {
			t.Errorf("%s: %v, though the map does not tell", change.alter, err)
		}
		if seen(change) && d.Matches(second) {
			t.Errorf("%s: the map matches that of before", change.alter)
		}
		if d, err = rowcodec.NewDecoder(s.load("a"), second); err != nil {
			t.Errorf("%s: the definition of after: %v", change.alter, err)
		} else if third := firstMap(t, s, "a"); third == second || !d.Matches(third) {
			t.Errorf("%s: the next map does not match", change.alter)
		}
		s.exec("DROP TABLE a")
	}
}

func TestShapes(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		checkShapes(t, s, func(shapeChange) bool { return true })
	})
}

// The servers' maps show a unique key of NOT NULL columns as the primary key of a table that has none.
func TestUniqueKeyAsPrimaryKey(t *testing.T) {
	onSources(t, func(t *testing.T, s source) {
		for _, keys := range []string{
			"UNIQUE KEY (b)",
			"UNIQUE KEY (b, id)",
			"UNIQUE KEY (n), UNIQUE KEY (c), UNIQUE KEY (b), KEY (id)",
			"UNIQUE KEY (n, id), KEY (b)",
			"UNIQUE KEY (v(2)), UNIQUE KEY (v)",
		} {
			s.exec("CREATE TABLE a (id INT NOT NULL, n INT, b INT NOT NULL DEFAULT 1, c INT NOT NULL DEFAULT 2, v VARCHAR(20) NOT NULL DEFAULT '', " + keys + ")")
			if _, err := rowcodec.NewDecoder(s.load("a"), firstMap(t, s, "a")); err != nil {
				t.Errorf("%s: %v", keys, err)
			}
			s.exec("DROP TABLE a")
		}
		s.exec("CREATE TABLE a (id INT NOT NULL, b INT NOT NULL DEFAULT 1, UNIQUE KEY (b))")
		def := s.load("a")
		s.exec("DROP TABLE a")
		s.exec("CREATE TABLE a (id INT NOT NULL, b INT NOT NULL DEFAULT 1, UNIQUE KEY (id))")
		if _, err := rowcodec.NewDecoder(def, firstMap(t, s, "a")); !errors.Is(err, rowcodec.ErrShape) {
			t.Errorf("a key over other columns: %v", err)
		}
	})
}

func TestShapesWithLessMetadata(t *testing.T) {
	for _, flavor := range testmysql.Flavors() {
		t.Run(flavor, func(t *testing.T) {
			t.Parallel()
			s := openSource(t, testmysql.Private(t, flavor, "--binlog-row-metadata=MINIMAL"))
			checkShapes(t, s, func(c shapeChange) bool { return !c.untold })
			if s.mariadb() {
				s.exec("SET GLOBAL binlog_row_metadata = NO_LOG")
				checkShapes(t, s, func(c shapeChange) bool { return !c.untold && !c.minimal })
			}
		})
	}
}
