package tests

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// modelTable is one table of the model. Every shape has the columns ver and v beside its own: ver is a number that only
// grows for a key, v is the text that was written with it ("v" and ver/verStep).
type modelTable struct {
	name string
	// create is what follows the table's name in CREATE TABLE.
	create string
	// index is the one that readers and the comparison use, with its columns; also are further ones to compare by.
	index   string
	columns []string
	also    []string
	// key gives the values of the columns of the index for one of the keys.
	key func(n int) []string
	// spell, if set, gives one of the spellings that the collation takes for equal.
	spell func(rng *rand.Rand, n int) string
	// alters are changes of the definition that suit this shape alone.
	alters []string
}

// verStep lies between two numbers that are given out under a lock; smaller steps are made without one.
const verStep = 1_000_000

// modelKeys is the number of keys that writers and readers use of each table.
const modelKeys = 60

// togetherTable holds rows that are always changed together.
const togetherTable = "together"

func modelTables() []*modelTable {
	number := func(n int) []string { return []string{fmt.Sprint(n)} }
	return []*modelTable{
		{
			name: "ints", create: "(id INT PRIMARY KEY, ver BIGINT NOT NULL, v VARCHAR(40), a INT, at TIMESTAMP(3) NULL, KEY a (a))",
			index: "PRIMARY", columns: []string{"id"}, also: []string{"a"}, key: number,
			alters: []string{"MODIFY id BIGINT NOT NULL", "MODIFY id INT NOT NULL", "MODIFY a BIGINT", "MODIFY a INT FIRST", "ADD UNIQUE KEY big (id, ver)", "DROP KEY big"},
		},
		{
			name: "texts", create: "(k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL PRIMARY KEY, ver BIGINT NOT NULL, v TEXT)",
			index: "PRIMARY", columns: []string{"k"},
			key: func(n int) []string { return []string{fmt.Sprintf("key é%d", n)} },
			spell: func(rng *rand.Rand, n int) string {
				return fmt.Sprintf([]string{"key é%d", "KEY E%d", "Key ê%d", "kéy e%d  "}[rng.IntN(4)], n)
			},
			alters: []string{
				"MODIFY k VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_unicode_ci NOT NULL",
				"MODIFY k VARCHAR(30) CHARACTER SET latin1 COLLATE latin1_swedish_ci NOT NULL",
				"MODIFY k CHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci NOT NULL",
				"CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
			},
		},
		{
			name: "pairs", create: "(a INT NOT NULL, b VARCHAR(10) CHARACTER SET latin1 NOT NULL, ver BIGINT NOT NULL, v VARCHAR(40), e ENUM('x','y') DEFAULT 'x', PRIMARY KEY (a, b))",
			index: "PRIMARY", columns: []string{"a", "b"},
			key:    func(n int) []string { return []string{fmt.Sprint(n % 7), fmt.Sprint("b", n)} },
			alters: []string{"MODIFY e ENUM('y','x') DEFAULT 'y'", "MODIFY e ENUM('x','y','z') DEFAULT 'x'", "MODIFY b VARCHAR(10) CHARACTER SET utf8mb4 NOT NULL"},
		},
		{
			name: "uniq", create: "(x INT NOT NULL, ver BIGINT NOT NULL, v VARCHAR(40), y INT, UNIQUE KEY u (x))",
			index: "u", columns: []string{"x"}, key: number,
			alters: []string{"ADD PRIMARY KEY (x)", "DROP PRIMARY KEY", "MODIFY x BIGINT UNSIGNED NOT NULL", "MODIFY x INT NOT NULL"},
		},
		{
			name: "parts", create: "(id INT NOT NULL PRIMARY KEY, ver BIGINT NOT NULL, v VARCHAR(40), g VARCHAR(50) AS (CONCAT('g', v)) VIRTUAL, s BIGINT AS (ver % 10) STORED) PARTITION BY HASH (id) PARTITIONS 4",
			index: "PRIMARY", columns: []string{"id"}, key: number,
			alters: []string{"TRUNCATE PARTITION p1", "COALESCE PARTITION 1", "ADD PARTITION PARTITIONS 1", "REBUILD PARTITION p0", "REMOVE PARTITIONING", "PARTITION BY HASH (id) PARTITIONS 4", "PARTITION BY KEY (id) PARTITIONS 3"},
		},
		{
			name: "floats", create: "(id INT NOT NULL PRIMARY KEY, ver BIGINT NOT NULL, v VARCHAR(40), f FLOAT DEFAULT 0.1, d DOUBLE DEFAULT 0.1, de DECIMAL(20,6) DEFAULT 1.5, j JSON)",
			index: "PRIMARY", columns: []string{"id"}, key: number,
			alters: []string{"MODIFY f DOUBLE DEFAULT 0.1", "MODIFY f FLOAT DEFAULT 0.1", "MODIFY de DECIMAL(25,3)", "MODIFY de DECIMAL(20,6)"},
		},
	}
}

// where gives the condition for one key.
func (m *modelTable) where(rng *rand.Rand, n int) string {
	var parts []string
	for i, v := range m.key(n) {
		if m.spell != nil {
			v = m.spell(rng, n)
		}
		parts = append(parts, m.columns[i]+"="+quoteText(v))
	}
	return strings.Join(parts, " AND ")
}

// values gives the list of columns of an INSERT and their values.
func (m *modelTable) values(rng *rand.Rand, n int, ver string) (columns, values string) {
	var vs []string
	for _, v := range m.key(n) {
		if m.spell != nil {
			v = m.spell(rng, n)
		}
		vs = append(vs, quoteText(v))
	}
	return strings.Join(m.columns, ",") + ",ver,v", strings.Join(vs, ",") + "," + ver + ",CONCAT('v'," + ver + " DIV " + fmt.Sprint(verStep) + ")"
}

func quoteText(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// change is a statement that changes rows of the table and writes @ver, the number that the session holds the lock for.
func (m *modelTable) change(rng *rand.Rand) string {
	n := rng.IntN(modelKeys)
	columns, values := m.values(rng, n, "@ver")
	set := fmt.Sprintf("ver=@ver, v=CONCAT('v',@ver DIV %d)", verStep)
	last := m.columns[len(m.columns)-1]
	switch rng.IntN(12) {
	case 0, 1, 2:
		_, more := m.values(rng, rng.IntN(modelKeys), "@ver")
		return fmt.Sprintf("INSERT IGNORE INTO %s (%s) VALUES (%s),(%s)", m.name, columns, values, more)
	case 3:
		return fmt.Sprintf("REPLACE INTO %s (%s) VALUES (%s)", m.name, columns, values)
	case 4:
		return fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON DUPLICATE KEY UPDATE %s", m.name, columns, values, set)
	case 5:
		return fmt.Sprintf("DELETE FROM %s WHERE %s", m.name, m.where(rng, n))
	case 6:
		return fmt.Sprintf("DELETE FROM %s ORDER BY ver LIMIT %d", m.name, rng.IntN(3))
	case 7: // the key moves
		keys := m.key(rng.IntN(modelKeys))
		return fmt.Sprintf("UPDATE IGNORE %s SET %s=%s, %s WHERE %s", m.name, last, quoteText(keys[len(keys)-1]), set, m.where(rng, n))
	case 8:
		return fmt.Sprintf("UPDATE %s SET %s ORDER BY %s DESC LIMIT %d", m.name, set, last, rng.IntN(20))
	case 9:
		if m.spell != nil { // the same key by another spelling
			return fmt.Sprintf("UPDATE %s SET %s=%s, %s WHERE %s", m.name, last, quoteText(m.spell(rng, n)), set, m.where(rng, n))
		}
		return fmt.Sprintf("UPDATE %s SET %s", m.name, set)
	default:
		return fmt.Sprintf("UPDATE %s SET %s WHERE %s", m.name, set, m.where(rng, n))
	}
}

// wild is a statement that needs no number: it makes ver a little larger, or changes other columns, or takes rows away.
func (m *modelTable) wild(rng *rand.Rand) string {
	switch rng.IntN(5) {
	case 0:
		return fmt.Sprintf("UPDATE %s SET ver=ver+1", m.name)
	case 1:
		return fmt.Sprintf("DELETE FROM %s WHERE ver %% 11 = %d", m.name, rng.IntN(11))
	case 2:
		if m.name == "floats" {
			return "UPDATE floats SET f=f*1.1, d=d/3, de=de+0.000001, j=JSON_OBJECT('k', id, 'd', d, 's', v), ver=ver+1"
		}
		if m.name == "ints" {
			return "UPDATE ints SET a=IF(id % 3, id % 5, NULL), at=NOW(3), ver=ver+1"
		}
		fallthrough
	default:
		return fmt.Sprintf("UPDATE %s SET ver=ver+1 WHERE %s", m.name, m.where(rng, rng.IntN(modelKeys)))
	}
}

// alter is a sequence of statements that change the table's definition. alone asks for no writers beside it: it copies
// rows, or brings rows of before back.
func (m *modelTable) alter(rng *rand.Rand) (statements []string, alone bool) {
	one := func(format string, args ...any) ([]string, bool) {
		return []string{fmt.Sprintf(format, args...)}, false
	}
	t := m.name
	switch rng.IntN(20) {
	case 0:
		return one("ALTER TABLE %s ADD COLUMN x%d INT NOT NULL DEFAULT %d %s", t, rng.IntN(4), rng.IntN(100), []string{"", "FIRST", "AFTER ver"}[rng.IntN(3)])
	case 1, 2:
		return one("ALTER TABLE %s DROP COLUMN x%d", t, rng.IntN(4))
	case 3:
		return one("CREATE INDEX ix%d ON %s (ver, v(5))", rng.IntN(2), t)
	case 4:
		return one("DROP INDEX ix%d ON %s", rng.IntN(2), t)
	case 5:
		return one("TRUNCATE TABLE %s", t)
	case 6:
		return one("ALTER TABLE %s COMMENT 'DROP TABLE %d'", t, rng.IntN(100))
	case 7:
		return one("ALTER TABLE %s FORCE", t)
	case 8:
		return one("ALTER TABLE %s MODIFY v VARCHAR(%d)", t, 40+rng.IntN(300))
	case 9:
		return []string{"DROP TABLE " + t, "CREATE TABLE " + t + " " + m.create}, false
	case 10:
		return []string{"RENAME TABLE " + t + " TO " + t + "_away", "RENAME TABLE " + t + "_away TO " + t}, false
	case 11:
		// As online schema change tools do it, without their triggers: so nobody may write meanwhile.
		shadow := "_" + t + "_gho"
		return []string{
			"DROP TABLE IF EXISTS " + shadow, "CREATE TABLE " + shadow + " " + m.create,
			"INSERT INTO " + shadow + " (" + strings.Join(m.columns, ",") + ",ver,v) SELECT " + strings.Join(m.columns, ",") + ",ver,v FROM " + t,
			"RENAME TABLE " + t + " TO _" + t + "_del, " + shadow + " TO " + t, "DROP TABLE _" + t + "_del",
		}, true
	case 12:
		return []string{"CREATE TEMPORARY TABLE " + t + " (id INT)", "INSERT INTO " + t + " VALUES (1)", "TRUNCATE TABLE " + t, "DROP TEMPORARY TABLE " + t}, false
	case 13:
		return []string{"CREATE OR REPLACE VIEW vw AS SELECT * FROM " + t, "ANALYZE TABLE " + t, "DROP VIEW vw"}, false
	case 14:
		return one("ALTER TABLE %s RENAME COLUMN x%d TO x%d", t, rng.IntN(4), rng.IntN(4))
	case 15:
		return one("ALTER TABLE %s ALTER COLUMN ver SET DEFAULT %d, ADD COLUMN x%d VARCHAR(9) DEFAULT 'é' FIRST", t, rng.IntN(9), rng.IntN(4))
	default:
		return one("ALTER TABLE %s %s", t, m.alters[rng.IntN(len(m.alters))])
	}
}
