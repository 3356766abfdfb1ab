package triggers

import (
	"fmt"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// groupRef names the group's columns by the variables p1, p2 and so on.
func (d *Design) groupRef(r Ref) string {
	for i, g := range d.Spec.Group {
		if g == r.Column {
			return fmt.Sprintf("p%d", i+1)
		}
	}
	return d.tableRef(r)
}

// inGroup is the condition that a source row belongs to the group p1, p2 and so on.
func (d *Design) inGroup() string {
	var all []string
	for i, g := range d.Spec.Group {
		all = append(all, fmt.Sprintf("s.%s = p%d", schema.QuoteName(g), i+1))
	}
	return strings.Join(all, " AND ")
}

// makeDelta keeps totals by differences: every change adds to its group or takes from it.
func (d *Design) makeDelta() {
	src := d.Spec.Source
	o, n := rowRef("OLD"), rowRef("NEW")
	var count string
	columns, values, plus, minus := "k", d.key.render(n), []string{}, []string{}
	for _, c := range d.columns {
		if !c.aggregate {
			columns += ", " + c.column()
			values += ", " + c.expr.render(n)
			continue
		}
		add, take := "1", "1"
		if c.sum != nil {
			add, take = c.sum.render(n), c.sum.render(o)
		} else if count == "" {
			count = c.column()
		}
		columns += ", " + c.column()
		values += ", " + add
		plus = append(plus, c.column()+" = "+c.column()+" + "+add)
		minus = append(minus, c.column()+" = "+c.column()+" - "+take)
	}
	if d.Spec.CAS != "" {
		columns += ", cas"
		values += ", " + d.casFirst()
		plus = append(plus, "cas = "+d.casNext(false))
		minus = append(minus, "cas = "+d.casNext(false))
	}
	enter := ifThen(d.member(n), fmt.Sprintf("INSERT INTO %s (%s)\nVALUES (%s)\nON DUPLICATE KEY UPDATE %s;", d.cache(), columns, values, strings.Join(plus, ", ")))
	leave := ifThen(d.member(o), fmt.Sprintf("UPDATE %[1]s SET %[2]s WHERE k = %[3]s;\nDELETE FROM %[1]s WHERE k = %[3]s AND %[4]s <= 0;",
		d.cache(), strings.Join(minus, ", "), d.key.render(o), count))
	d.trigger(src, "AFTER", "INSERT", "The group gains a row.", enter)
	d.trigger(src, "AFTER", "UPDATE", "The row's new values come in, then its old ones go out, be it in one group or in two.",
		ifThen(d.changed(d.used()), enter+"\n"+leave))
	d.trigger(src, "AFTER", "DELETE", "The group loses a row; with the last one it goes.", leave)

	id := d.identity()
	d.addPositions()
	var declared, into, picked, set []string
	for i, c := range d.columns {
		if !c.aggregate {
			continue
		}
		v := fmt.Sprintf("t%d", i+1)
		declared = append(declared, "DECLARE "+v+" "+strings.TrimSuffix(c.definition, " NOT NULL DEFAULT 0")+";")
		into, picked = append(into, v), append(picked, c.expr.render(d.tableRef))
		set = append(set, c.column()+" = "+v)
	}
	var constant string
	for i, c := range d.columns {
		if c.sum == nil && c.aggregate && constant == "" {
			constant = fmt.Sprintf("t%d", i+1)
		} else if !c.aggregate {
			set = append(set, c.column()+" = "+c.expr.render(d.tableRef))
		}
	}
	d.groupFill(id, strings.Join(declared, "\n")+"\n",
		"Computes the totals of what is there already, group by group.",
		fmt.Sprintf(`-- The lock on the cache row comes first: who changes the group at the same time is either seen below, or waits for the lock.
INSERT INTO %[1]s (k) VALUES (%[2]s) ON DUPLICATE KEY UPDATE k = k;
SELECT %[3]s INTO %[4]s FROM %[5]s AS s
WHERE %[6]s;
IF %[7]s = 0 THEN
  DELETE FROM %[1]s WHERE k = %[2]s;
ELSE
  UPDATE %[1]s SET %[8]s WHERE k = %[2]s;
END IF;`, d.cache(), d.key.render(d.groupRef), strings.Join(picked, ", "), strings.Join(into, ", "), quote(src),
			and(d.inGroup(), d.member(d.tableRef)), constant, strings.Join(set, ", ")))
	if !d.Spec.Every.IsZero() {
		d.event("bc_"+d.Spec.Name+"_recount", d.Spec.Every, "binlogcache: computes the totals of "+d.Spec.Cache.String()+" anew",
			fmt.Sprintf("-- Differences drift when rows change without triggers: cascades of foreign keys, TRUNCATE.\nDELETE FROM %s;\nCALL %s(1000, NULL);", d.FillTable(), d.FillProcedure()))
	}
	d.note("Cost: each change writes its group's row in the same transaction, so writers of one group wait for each other.")
	d.note("Until filling has ended the totals are too low.")
}

// makeMarked marks the groups that change; an event computes them.
func (d *Design) makeMarked() {
	src := d.Spec.Source
	o, n := rowRef("OLD"), rowRef("NEW")
	id := d.identity()
	count := ids("id", len(id))
	mark := func(name naming) string {
		var values []string
		for _, g := range d.Spec.Group {
			values = append(values, name(Ref{Column: g}))
		}
		return ifThen(d.member(name), fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON DUPLICATE KEY UPDATE tries = 0;", d.MarkTable(), count, strings.Join(values, ", ")))
	}
	d.trigger(src, "AFTER", "INSERT", "The group is to be computed.", mark(n))
	d.trigger(src, "AFTER", "UPDATE", "Both groups are to be computed; they are mostly one.", ifThen(d.changed(d.used()), mark(n)+"\n"+mark(o)))
	d.trigger(src, "AFTER", "DELETE", "The group is to be computed.", mark(o))

	d.addPositions()
	d.groupFill(id, "", "Marks all groups that are there already; they are computed like those that change.",
		fmt.Sprintf("INSERT INTO %s (%s) VALUES (%s) ON DUPLICATE KEY UPDATE tries = 0;", d.MarkTable(), count, ids("p", len(id))))

	var declared, into, picked []string
	columns, values, updates := "k", d.key.render(d.groupRef), []string{}
	for i, c := range d.columns {
		v := c.expr.render(d.tableRef)
		if c.aggregate {
			v = fmt.Sprintf("t%d", i+1)
			declared = append(declared, "DECLARE "+v+" "+c.definition+";")
			into, picked = append(into, v), append(picked, c.expr.render(d.tableRef))
		}
		columns += ", " + c.column()
		values += ", " + v
		updates = append(updates, c.column()+" = "+v)
	}
	if d.Spec.CAS != "" {
		columns, values, updates = columns+", cas", values+", "+d.casFirst(), append(updates, "cas = "+d.casNext(false))
	}
	var marked []string
	for i := range id {
		marked = append(marked, fmt.Sprintf("id%[1]d = p%[1]d", i+1))
	}
	lock := d.lock("refresh")
	d.procedure("bc_"+d.Spec.Name+"_refresh", "IN marks INT", fmt.Sprintf(
		`-- Computes up to `+"`marks`"+` groups that have changed. Marks of transactions that are still at work are left for the next time.
%[1]s%[2]s
DECLARE group_rows BIGINT;
DECLARE rest INT DEFAULT marks;
DECLARE is_there BOOL;
DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_there = FALSE;
SET SESSION group_concat_max_len = 1048576;
IF GET_LOCK(%[3]s, 0) THEN
  work: LOOP
    SET is_there = TRUE;
    START TRANSACTION;
    SELECT %[4]s INTO %[5]s FROM %[6]s ORDER BY since LIMIT 1 FOR UPDATE SKIP LOCKED;
    IF NOT is_there OR rest <= 0 THEN
      COMMIT;
      LEAVE work;
    END IF;
    -- The mark goes first, under its lock, then the group is read without locks: a change that is not seen sets a new mark.
    DELETE FROM %[6]s WHERE %[7]s;
    SELECT COUNT(*), %[8]s INTO group_rows, %[9]s FROM %[10]s AS s
    WHERE %[11]s;
    IF group_rows = 0 THEN
      DELETE FROM %[12]s WHERE k = %[13]s;
    ELSE
      INSERT INTO %[12]s (%[14]s)
      VALUES (%[15]s)
      ON DUPLICATE KEY UPDATE %[16]s;
    END IF;
    COMMIT;
    SET rest = rest - 1;
  END LOOP;
  DO RELEASE_LOCK(%[3]s);
END IF;`, declare("p", id), strings.Join(declared, "\n"), lock, count, ids("p", len(id)), d.MarkTable(), strings.Join(marked, " AND "),
		strings.Join(picked, ", "), strings.Join(into, ", "), quote(src), and(d.inGroup(), d.member(d.tableRef)), d.cache(), d.key.render(d.groupRef),
		columns, values, strings.Join(updates, ", ")))
	d.refreshEvent()
	d.note("Cost: each change marks its group in the same transaction, so writers of one group wait for each other; the value is computed later, every %s.", d.Spec.Every)
}

// groupFill adds the procedure that goes through all groups.
func (d *Design) groupFill(id []*schema.Column, declared, about, work string) {
	n := len(id)
	var moved []string
	for i := range n {
		moved = append(moved, fmt.Sprintf("id%[1]d = p%[1]d", i+1))
	}
	d.procedure("bc_"+d.Spec.Name+"_fill", fillParameters, fmt.Sprintf(
		`-- %[1]s
-- `+"`chunk` × `chunks`"+` groups in one call (NULL: all), each in a transaction of its own. The next call goes on where the last
-- one stopped. To begin anew:
--   DELETE FROM %[2]s;
%[3]s%[4]sDECLARE rest BIGINT DEFAULT GREATEST(IFNULL(chunk, 500), 1) * chunks;
DECLARE is_done INT DEFAULT 0;
DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_done = 1;
INSERT INTO %[2]s (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
SELECT finished, %[5]s INTO is_done, %[6]s FROM %[2]s WHERE one = 1;
fill: LOOP
  IF is_done OR rest <= 0 THEN
    LEAVE fill;
  END IF;
  SELECT %[7]s INTO %[6]s FROM %[8]s AS s
  WHERE p1 IS NULL OR %[9]s
  ORDER BY %[7]s LIMIT 1;
  IF is_done THEN
    UPDATE %[2]s SET finished = 1 WHERE one = 1;
    LEAVE fill;
  END IF;
  START TRANSACTION;
  %[10]s
  UPDATE %[2]s SET %[11]s, steps = steps + 1 WHERE one = 1;
  COMMIT;
  SET rest = rest - 1;
END LOOP;`, about, d.FillTable(), declare("p", id), declared, ids("id", n), ids("p", n), identityColumns(id), quote(d.Spec.Source),
		beyond(id, "p", ">"), indent(1, work), strings.Join(moved, ", ")))
}
