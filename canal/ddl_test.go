package canal

import (
	"strings"
	"testing"

	"github.com/binlogcache/binlogcache/internal/testmysql"
	"github.com/binlogcache/binlogcache/schema"
)

// TestTouches has tables of two schemas, and which of them statements with the default schema "a" may mean.
func TestTouches(t *testing.T) {
	followed := []schema.Name{{Schema: "a", Table: "t"}, {Schema: "b", Table: "t"}, {Schema: "a", Table: "u"}, {Schema: "b.c", Table: "t`x"}, {Schema: "a", Table: "ä"}}
	for sql, want := range map[string]string{
		"DROP TABLE t":                                                        "a.t",
		"DROP TABLE IF EXISTS b.t, `u` /* x */":                               "b.t a.u",
		"DROP TABLE b . t CASCADE":                                            "b.t",
		"DROP TABLE `b.c`.`t``x` WAIT 5":                                      "b.c.t`x",
		"DROP TABLE T, B.T NOWAIT":                                            "a.t b.t", // names may know no case
		"DROP TABLE Ä":                                                        "a.ä",
		"TRUNCATE t":                                                          "a.t",
		"TRUNCATE TABLE b.t WAIT 1":                                           "b.t",
		"TRUNCATE TABLE table_":                                               "",
		"RENAME TABLE t TO x, b.u TO b.t":                                     "a.t b.t",
		"RENAME TABLES IF EXISTS u WAIT 3 TO c.t, x NOWAIT TO y":              "a.u",
		"CREATE TABLE b.t (t INT, u INT REFERENCES t (id))":                   "b.t",
		"CREATE TABLE IF NOT EXISTS u LIKE b.t":                               "a.u",
		"CREATE OR REPLACE TABLE u (t INT)":                                   "a.u",
		"ALTER TABLE b.t ADD t INT, DROP u":                                   "b.t",
		"ALTER TABLE x RENAME COLUMN t TO u, RENAME KEY t TO u":               "",
		"ALTER TABLE x RENAME b.t":                                            "b.t",
		"ALTER TABLE x ADD y INT, RENAME = t":                                 "a.t",
		"ALTER TABLE x RENAME AS u":                                           "a.u",
		"ALTER TABLE x EXCHANGE PARTITION t WITH TABLE u WITHOUT VALIDATION":  "a.u",
		"ALTER TABLE x CONVERT TABLE b.t TO PARTITION p VALUES LESS THAN (5)": "b.t",
		"ALTER TABLE x CONVERT PARTITION t TO TABLE u":                        "a.u",
		"ALTER TABLE x CONVERT TO CHARACTER SET latin1":                       "",
		"ALTER TABLE x COMMENT 't', ADD FOREIGN KEY (t) REFERENCES b.t (u)":   "",
		"ALTER ONLINE TABLE IF EXISTS u NOWAIT FORCE":                         "a.u",
		"CREATE INDEX t ON u (t)":                                             "a.u",
		"CREATE INDEX t USING BTREE ON b.t (t)":                               "b.t",
		"DROP INDEX IF EXISTS u ON t":                                         "a.t",
		// What can't be read for certain touches what its words may mean.
		"ALTER TABLE x EXCHANGE PARTITION t":    "a.t b.t",
		"DROP TABLE x, .t":                      "a.t b.t",
		"TRUNCATE TABLE x SOMETHING u":          "a.u",
		"RENAME TABLE t AS b.x":                 "a.t b.t",
		"REPAIR TABLE t":                        "a.t b.t",
		"DROP /*!50000 TABLE */ /*!99999 b.*/t": "", // all, see below
		"DROP TABLE /*!99999 b.*/t":             "a.t b.t",
		"DROP TABLE /*M!100100 IF EXISTS */ t":  "a.t",
	} {
		st := classify([]byte(sql), plainStatus)
		var got []string
		for _, name := range followed {
			if st.touches(name, "a") {
				got = append(got, name.String())
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q touches %v, wanted %s (named %v, targets %v)", sql, got, want, st.named, st.targets)
		}
	}
	for _, sql := range []string{"DROP /*!50000 TABLE */ /*!99999 b.*/t", "DROP TABLE `#mysql50#t`", "ALTER TABLE a.`#MySQL50#x` FORCE"} {
		if st := classify([]byte(sql), plainStatus); st.effect != effectAll {
			t.Errorf("%q: effect %d", sql, st.effect)
		}
	}
	// Without a default schema a name may be of any; in latin1 a name beyond ASCII may be any of its kind.
	st := classify([]byte("DROP TABLE t"), plainStatus)
	if !st.touches(followed[1], "") {
		t.Error("without a default schema b.t is not touched")
	}
	st = classify([]byte("DROP TABLE \xfc"), statusBlock(0, 8))
	if !st.touches(followed[4], "a") || st.touches(followed[0], "a") {
		t.Errorf("in latin1: %v", st.targets)
	}
	// \xa0 is a blank there.
	st = classify([]byte("DROP TABLE x,\xa0t"), statusBlock(0, 8))
	if !st.touches(followed[0], "a") || st.touches(followed[2], "a") {
		t.Errorf("behind a blank of latin1: %v", st.words)
	}
	for sql, effect := range map[string]effect{
		"DROP DATABASE \xa0a": effectAll, "DROP DATABASE\xa0a": effectAll, "CREATE TABLE \xa0t (a INT)": effectTables, "DROP\xa0TABLE t": effectAll,
		"ALTER TABLE t COMMENT 'x',\xa0DROP COLUMN a": effectTables,
	} {
		if st := classify([]byte(sql), statusBlock(0, 8)); st.effect != effect {
			t.Errorf("%q: effect %d, wanted %d", sql, st.effect, effect)
		}
	}
}

func TestKeeps(t *testing.T) {
	for sql, indexes := range map[string]bool{
		"ALTER TABLE t ADD INDEX (a)": true,
		"ALTER TABLE t ADD KEY IF NOT EXISTS k USING HASH (a, b(10) DESC) COMMENT 'x' VISIBLE": true,
		"ALTER TABLE t ADD CONSTRAINT UNIQUE KEY k (a), ALGORITHM=INPLACE, LOCK=NONE":          true,
		"ALTER TABLE t ADD CONSTRAINT c UNIQUE (a)":                                            true,
		"ALTER TABLE b.t ADD FULLTEXT INDEX f (a) WITH PARSER ngram":                           true,
		"ALTER TABLE t DROP INDEX a, DROP KEY IF EXISTS `b`":                                   true,
		"ALTER TABLE t RENAME INDEX a TO b, COMMENT = 'DROP COLUMN'":                           true,
		"ALTER TABLE t ALTER INDEX a INVISIBLE":                                                true,
		"ALTER TABLE t ALTER KEY a NOT IGNORED":                                                true,
		"CREATE UNIQUE INDEX i ON t (a ASC) KEY_BLOCK_SIZE=4 ALGORITHM=NOCOPY":                 true,
		"CREATE OR REPLACE INDEX i ON t (a)":                                                   true,
		"DROP INDEX i ON t LOCK=NONE":                                                          true,
		"DROP INDEX i ON t WAIT 3":                                                             true,
		"ALTER TABLE t COMMENT 'x'":                                                            false,
		"ALTER TABLE t COMMENT='x' AUTO_INCREMENT=5 STATS_PERSISTENT DEFAULT":                  false,
		"ALTER TABLE t STATS_SAMPLE_PAGES=3, STATS_AUTO_RECALC=0":                              false,
		"ALTER TABLE t DISABLE KEYS":                                                           false,
		"ALTER TABLE t ALTER a SET DEFAULT 5, ALTER COLUMN b DROP DEFAULT":                     false,
		"ALTER TABLE t ALTER a SET DEFAULT -1.5, ALTER b SET DEFAULT (UUID(',')), ALTER c SET DEFAULT _utf8mb4'x', ALTER d SET DEFAULT NOW(6), ALTER e SET DEFAULT b'1'": false,
	} {
		if st := classify([]byte(sql), plainStatus); st.effect != effectKeeps || st.indexes != indexes || !st.ddl || !st.named {
			t.Errorf("%q: effect %d, indexes %v", sql, st.effect, st.indexes)
		}
	}
	for _, sql := range []string{
		"ALTER TABLE t", "ALTER TABLE t FORCE", "ALTER TABLE t ENGINE=InnoDB", "ALTER TABLE t ADD PRIMARY KEY (a)", "ALTER TABLE t DROP PRIMARY KEY",
		"ALTER TABLE t DROP INDEX `PRIMARY`", "DROP INDEX `primary` ON t", "ALTER IGNORE TABLE t ADD UNIQUE (a)", "ALTER TABLE t ADD COLUMN a INT",
		"ALTER TABLE t ADD a INT", "ALTER TABLE t ADD (a INT)", "ALTER TABLE t ADD INDEX ((a+1))", "ALTER TABLE t ADD INDEX (a, (b+1))",
		"ALTER TABLE t ADD INDEX (a), ADD COLUMN b INT", "ALTER TABLE t ADD INDEX (a) ADD COLUMN b INT", "ALTER TABLE t ALTER a SET DEFAULT 5 FIRST",
		"ALTER TABLE t ALTER COLUMN a SET VISIBLE", "ALTER TABLE t ALTER a SET DEFAULT (1", "ALTER TABLE t RENAME COLUMN a TO b", "ALTER TABLE t RENAME TO u",
		"ALTER TABLE t COMMENT 'x' 'y'", "ALTER TABLE t CONVERT TO CHARACTER SET latin1", "ALTER TABLE t MODIFY a INT DEFAULT 5", "ALTER TABLE t ORDER BY a",
		"ALTER TABLE t ADD FOREIGN KEY (a) REFERENCES p (id)", "ALTER TABLE t DROP CONSTRAINT c", "ALTER TABLE t ADD CHECK (a > 0)",
		"ALTER TABLE t COMMENT 'x', ADD INDEX /*!50000 (a), DROP COLUMN b, ADD INDEX */ (c)", "ALTER TABLE t COMMENT 'x' /*!80000 , DROP COLUMN b */",
		"CREATE INDEX i ON t ((a*2))", "ALTER TABLE t PARTITION BY HASH (a)", "ALTER TABLE t DROP PARTITION p", "ALTER TABLE t ADD VECTOR INDEX (v)",
	} {
		if st := classify([]byte(sql), plainStatus); st.effect != effectTables || !st.ddl {
			t.Errorf("%q: effect %d", sql, st.effect)
		}
	}
}

// definition is that of a table as the sink has it.
func (s *memSink) definition(name string) *schema.Table {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.tables[name]; t != nil && t.reason == "" {
		return t.def
	}
	return nil
}

func TestRedefine(t *testing.T) {
	flavors(t, func(t *testing.T, s testmysql.Server) {
		r := newRig(t, s,
			"CREATE TABLE a (id INT PRIMARY KEY, v VARCHAR(20), n INT)", "INSERT INTO a VALUES (1, 'one', 1), (2, 'two', 2)",
			"CREATE TABLE g (id INT PRIMARY KEY, v INT, w INT AS (v + 1) STORED)", "INSERT INTO g (id, v) VALUES (1, 1)",
			"CREATE TABLE u (a INT NOT NULL, b INT NOT NULL, UNIQUE KEY ka (a))", "INSERT INTO u VALUES (1, 1)")
		between := func() {}
		r.start(nil, func(f *Follower) {
			f.hooks = map[hookPoint]func(schema.Name){hookRedefined: func(schema.Name) { between() }}
		})
		r.same("a", "g", "u")
		has := func(table string, indexes ...string) {
			t.Helper()
			r.eventually("indexes "+strings.Join(indexes, ","), func() bool {
				def := r.sink.definition(r.schema + "." + table)
				if def == nil || len(def.Indexes) != len(indexes) {
					return false
				}
				for _, name := range indexes {
					if def.IndexByName(name) < 0 {
						return false
					}
				}
				return true
			})
		}
		r.exec("ALTER TABLE a ADD INDEX n (n), COMMENT 'x'")
		r.exec("INSERT INTO a VALUES (3, 'three', 3)")
		has("a", "PRIMARY", "n")
		r.exec("ALTER TABLE a ALTER COLUMN n SET DEFAULT 5, AUTO_INCREMENT = 100")
		r.exec("INSERT INTO a (id) VALUES (4)")
		r.same("a")
		// A second statement while the definition is read: both count.
		did := false
		between = func() {
			if !did {
				did = true
				if err := r.session().Exec(t.Context(), "CREATE INDEX v ON a (v)"); err != nil {
					t.Error(err)
				}
				if err := r.f.WaitApplied(t.Context(), r.executed()); err != nil {
					t.Error(err)
				}
			}
		}
		r.exec("DROP INDEX n ON a")
		has("a", "PRIMARY", "v")
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 1 {
			t.Errorf("a was loaded %d times", n)
		}
		// A column that comes meanwhile has the table loaded.
		did = false
		between = func() {
			if !did {
				did = true
				if err := r.session().Exec(t.Context(), "ALTER TABLE a ADD COLUMN more INT DEFAULT 7"); err != nil {
					t.Error(err)
				}
			}
		}
		r.exec("DROP INDEX v ON a")
		r.eventually("the load for the new column", func() bool { return r.sink.loadsOf(r.schema+".a") == 2 })
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 2 {
			t.Errorf("a was loaded %d times", n)
		}
		between = func() {}
		// Generated columns may be computed again; another key tells rows apart.
		r.exec("ALTER TABLE g ADD INDEX (v)")
		r.exec("ALTER TABLE u ADD UNIQUE KEY a0 (b), DROP INDEX ka")
		r.exec("INSERT INTO u VALUES (1, 2)")
		r.eventually("loads of g and u", func() bool {
			return r.sink.loadsOf(r.schema+".g") == 2 && r.sink.loadsOf(r.schema+".u") == 2
		})
		r.same("g", "u")
		// The same table in another schema is another table.
		other := s.Schema(t)
		r.exec("CREATE TABLE " + other + ".a (id INT PRIMARY KEY)")
		r.exec("ALTER TABLE " + other + ".a ADD COLUMN x INT")
		r.exec("DROP TABLE " + other + ".a")
		r.same("a")
		if n := r.sink.loadsOf(r.schema + ".a"); n != 2 {
			t.Errorf("a was loaded %d times", n)
		}
	})
}
