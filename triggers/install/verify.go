package install

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/triggers"
)

// Report is what verifying has found.
type Report struct {
	// Cached is the number of rows of the cache table, Wanted that of the rows it should have; expired ones left out.
	Cached, Wanted int64
	// Missing rows are not there, Stale ones hold something else, Orphans belong to no source row.
	Missing, Stale, Orphans int64
	// Due is the number of rows or groups that wait to be computed. They are in none of the other numbers.
	Due int64
	// Examples are some keys of rows that are wrong, each with what is wrong.
	Examples []string
	// BySums is true where sums were equal and rows were not compared one by one.
	BySums bool

	orphans []string
}

// Wrong is the number of rows that are not as they should be.
func (r *Report) Wrong() int64 { return r.Missing + r.Stale + r.Orphans }

const (
	maxExamples = 20
	orphanBatch = 500
)

// Verify compares the cache table with its sources, both as one snapshot has them: by sums first, unless rows is true, and
// row by row where the sums differ.
func (s *Session) Verify(ctx context.Context, d *triggers.Design, rows bool) (*Report, error) {
	for _, st := range []string{"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"} {
		if err := s.exec(ctx, st); err != nil {
			return nil, err
		}
	}
	defer func() { _ = s.exec(context.WithoutCancel(ctx), "COMMIT") }()
	r := new(Report)
	var err error
	if r.Due, err = s.Due(ctx, d); err != nil {
		return nil, err
	}
	if !rows && r.Due == 0 {
		if r.BySums, err = s.sums(ctx, d, r); err != nil || r.BySums {
			return r, err
		}
	}
	return r, s.rowByRow(ctx, d, r)
}

// text is a column's value as bytes that are compared.
func text(table string, c triggers.Compared) string {
	v := table + "." + c.Name
	if c.Text {
		return "CAST(CONVERT(" + v + " USING utf8mb4) AS BINARY)"
	}
	return v
}

// alive leaves expired rows out.
func alive(d *triggers.Design, table string) string {
	if _, follows := d.Expires(); follows {
		return fmt.Sprintf("(%[1]s.exp = 0 OR %[1]s.exp >= UNIX_TIMESTAMP())", table)
	}
	return "TRUE"
}

func cacheTable(d *triggers.Design) string {
	return "`" + strings.ReplaceAll(d.Spec.Cache.Schema, "`", "``") + "`.`" + strings.ReplaceAll(d.Spec.Cache.Table, "`", "``") + "`"
}

// sums compares the number of rows and a 64-bit sum over keys and values.
func (s *Session) sums(ctx context.Context, d *triggers.Design, r *Report) (equal bool, err error) {
	if has, follows := d.Expires(); has && !follows {
		return false, nil // rows may have been purged
	}
	sum := func(table, from string) string {
		parts := "HEX(CONVERT(" + table + ".k USING utf8mb4))"
		for _, c := range d.Columns() {
			v := text(table, c)
			if c.Text {
				v = "HEX(" + v + ")"
			}
			parts += ", '/', IFNULL(" + v + ", '-')"
		}
		return "SELECT COUNT(*), COALESCE(BIT_XOR(CAST(CONV(LEFT(SHA2(CONCAT(" + parts + "), 256), 16), 16, 10) AS UNSIGNED)), 0) FROM " +
			from + " AS " + table + " WHERE " + alive(d, table)
	}
	var wanted, cached string
	if err := s.one(ctx, sum("d", "(\n"+d.DefinitionQuery()+"\n)"), nil, &r.Wanted, &wanted); err != nil {
		return false, fmt.Errorf("sum of the sources: %w", err)
	}
	if err := s.one(ctx, sum("c", cacheTable(d)), nil, &r.Cached, &cached); err != nil {
		return false, fmt.Errorf("sum of the cache table: %w", err)
	}
	return wanted == cached && r.Wanted == r.Cached, nil
}

func (s *Session) rowByRow(ctx context.Context, d *triggers.Design, r *Report) error {
	definition, cache := "(\n"+d.DefinitionQuery()+"\n)", cacheTable(d)
	if err := s.one(ctx, "SELECT COUNT(*) FROM "+definition+" AS d WHERE "+alive(d, "d"), nil, &r.Wanted); err != nil {
		return fmt.Errorf("count what the sources make: %w", err)
	}
	if err := s.one(ctx, "SELECT COUNT(*) FROM "+cache+" AS c WHERE "+alive(d, "c"), nil, &r.Cached); err != nil {
		return fmt.Errorf("count the cache table: %w", err)
	}
	same := "TRUE"
	for _, c := range d.Columns() {
		same += " AND " + text("c", c) + " <=> " + text("d", c)
	}
	has, follows := d.Expires()
	purged := has && !follows // what is missing may have expired
	where := "(c.k IS NULL OR NOT (" + same + ")) AND " + alive(d, "d")
	if purged {
		where = "c.k IS NOT NULL AND NOT (" + same + ")"
	}
	err := s.rows(ctx, "SELECT d.k, c.k IS NULL FROM "+definition+" AS d LEFT JOIN "+cache+" AS c ON c.k = d.k WHERE "+where+notDue(d, "d.k", true), nil,
		func(v [][]byte) error {
			what := "stale"
			if string(v[1]) == "1" {
				what = "missing"
				r.Missing++
			} else {
				r.Stale++
			}
			r.example(string(v[0]), what)
			return nil
		})
	if err != nil {
		return fmt.Errorf("compare rows: %w", err)
	}
	return s.findOrphans(ctx, d, r)
}

// findOrphans adds the rows of the cache table that belong to no source row.
func (s *Session) findOrphans(ctx context.Context, d *triggers.Design, r *Report) error {
	// One collation on both sides, and a table of its own (see Open): so the server joins by an index that it makes.
	definition, cache := "(\nSELECT CONVERT(q.k USING utf8mb4) COLLATE utf8mb4_bin AS k FROM (\n"+d.DefinitionQuery()+"\n) AS q)", cacheTable(d)
	err := s.rows(ctx, "SELECT c.k FROM "+cache+" AS c LEFT JOIN "+definition+" AS d ON d.k = c.k WHERE d.k IS NULL AND "+alive(d, "c")+notDue(d, "c.k", false), nil,
		func(v [][]byte) error {
			r.Orphans++
			r.orphans = append(r.orphans, string(v[0]))
			r.example(string(v[0]), "belongs to no source row")
			return nil
		})
	if err != nil {
		return fmt.Errorf("look for orphans: %w", err)
	}
	return nil
}

func (r *Report) example(key, what string) {
	if len(r.Examples) < maxExamples {
		r.Examples = append(r.Examples, key+": "+what)
	}
}

// notDue leaves out what is marked to be computed later.
func notDue(d *triggers.Design, key string, definition bool) string {
	if d.MarkTable() == "" {
		return ""
	}
	match := ""
	switch due := d.DueKey(); {
	case due != "":
		match = due + " = " + key
	case definition:
		var all []string
		for i := range d.IdentityColumns() {
			all = append(all, fmt.Sprintf("m.id%[1]d = d.id%[1]d", i+1))
		}
		match = strings.Join(all, " AND ")
	default:
		return "" // the cache rows of marked rows are gone
	}
	return " AND NOT EXISTS (SELECT 1 FROM " + d.MarkTable() + " AS m WHERE " + match + ")"
}

// Repair mends what a report has found: it fills anew, which writes every row that is missing or stale, and deletes orphans,
// each after another look under its lock. It returns how many orphans were deleted.
func (s *Session) Repair(ctx context.Context, d *triggers.Design, r *Report, progress func(done, total int64)) (int64, error) {
	if d.Spec.Query != "" {
		return 0, s.Refresh(ctx, d)
	}
	deleted, err := s.removeOrphans(ctx, d, r.orphans)
	if err != nil {
		return deleted, err
	}
	if r.Missing+r.Stale > 0 {
		if err := s.exec(ctx, "DELETE FROM "+d.FillTable()); err != nil {
			return deleted, err
		}
		return deleted, s.Fill(ctx, d, progress)
	}
	return deleted, s.Refresh(ctx, d)
}

// removeOrphans deletes the rows of these keys that still belong to no source row.
func (s *Session) removeOrphans(ctx context.Context, d *triggers.Design, all []string) (deleted int64, err error) {
	for keys := range slices.Chunk(all, orphanBatch) {
		err := s.locked(ctx, "deleting orphans", func() error {
			n, err := s.deleteOrphans(ctx, d, keys)
			if err == nil {
				deleted += n
			}
			return err
		})
		if err != nil {
			_ = s.exec(ctx, "ROLLBACK")
			return deleted, fmt.Errorf("delete orphans: %w", err)
		}
	}
	return deleted, nil
}

// deleteOrphans locks the cache rows first and looks at the sources then, without locks: a writer that has a source row of
// one of these keys is either seen, or waits for the cache row and writes it after the delete.
func (s *Session) deleteOrphans(ctx context.Context, d *triggers.Design, keys []string) (int64, error) {
	list := "(?" + strings.Repeat(", ?", len(keys)-1) + ")"
	args := make([]any, len(keys))
	for i, k := range keys {
		args[i] = k
	}
	if err := s.exec(ctx, "START TRANSACTION"); err != nil {
		return 0, err
	}
	err := s.rows(ctx, "SELECT k FROM "+cacheTable(d)+" WHERE k IN "+list+" FOR UPDATE", args, func([][]byte) error { return nil })
	if err != nil {
		return 0, err
	}
	found := make(map[string]bool)
	err = s.rows(ctx, "SELECT d.k FROM (\n"+d.DefinitionQuery()+"\n) AS d WHERE d.k IN "+list, args, func(v [][]byte) error {
		found[string(v[0])] = true
		return nil
	})
	if err != nil {
		return 0, err
	}
	var n int64
	for _, k := range keys {
		if found[k] {
			continue
		}
		var res sql.Result
		if res, err = s.conn.ExecContext(ctx, "DELETE FROM "+cacheTable(d)+" WHERE k = ?", k); err != nil {
			return 0, err
		}
		affected, _ := res.RowsAffected() // the protocol always has it
		n += affected
	}
	return n, s.exec(ctx, "COMMIT")
}
