package triggers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
)

// ifThen wraps statements into IF ... THEN, unless there is no condition.
func ifThen(condition, body string) string {
	if condition == "" {
		return body
	}
	return "IF " + condition + " THEN\n  " + indent(1, body) + "\nEND IF;"
}

// makeRows adds what keeps one cache row for each source row.
func (d *Design) makeRows() {
	if len(d.Spec.Joins) == 0 {
		d.makePlainRows()
	} else {
		d.makeJoinedRows()
	}
	d.makeRowFill()
	if d.Spec.Tolerant {
		d.makeRowRefresh()
	}
	d.note("Cost: each change of a cached row writes one more row, in the same transaction.")
}

// makePlainRows writes the cache row from the trigger's own row.
func (d *Design) makePlainRows() {
	src := d.Spec.Source
	o, n := rowRef("OLD"), rowRef("NEW")
	d.trigger(src, "AFTER", "INSERT", "A new row.", d.tolerate("NEW", false, ifThen(d.member(n), d.upsertRow(n))))

	keySame := d.same(refs(d.key))
	about, left := "Another key: the old one goes.", d.changed(refs(d.key))
	if d.when != nil {
		about, left = "Not wanted any more, or another key: the old one goes.", d.member(o)+" AND NOT ("+and(d.member(n), keySame)+")"
	}
	d.trigger(src, "AFTER", "UPDATE", about, d.tolerate("NEW", d.when != nil,
		ifThen(left, d.deleteKey(o))+
			"\n-- Something that is stored has changed.\n"+
			ifThen(and(d.member(n), d.changed(d.used())), d.upsertRow(n))))
	gone := ifThen(d.member(o), d.deleteKey(o))
	if d.Spec.Tolerant {
		gone = d.deleteKey(o) // without a condition that could fail
	}
	d.trigger(src, "AFTER", "DELETE", "The row has gone.", gone)
}

// rowIs finds the source row of a trigger's row by its key.
func (d *Design) rowIs(row string) string {
	var all []string
	for _, c := range d.base.rowKey() {
		all = append(all, "s."+schema.QuoteName(c.Name)+" = "+row+"."+schema.QuoteName(c.Name))
	}
	return strings.Join(all, " AND ")
}

// makeJoinedRows reads the source row together with its partners, in the triggers of the source and of each partner.
func (d *Design) makeJoinedRows() {
	src := d.Spec.Source
	own := d.rowIs("NEW")
	d.trigger(src, "AFTER", "INSERT", "A new row, with what it points to.", d.tolerate("NEW", false, d.upsertSelect(d.tableRef, own)))
	refresh := d.upsertSelect(d.tableRef, own)
	if d.member(d.tableRef) != "" {
		refresh = d.deleteLeavers(own) + "\n" + refresh
	}
	d.trigger(src, "AFTER", "UPDATE", "Another key: the old one goes.", d.tolerate("NEW", false,
		ifThen(d.changed(refs(d.key)), d.deleteKey(rowRef("OLD")))+
			"\n-- Something that is stored has changed.\n"+
			ifThen(d.changed(d.ownUsed()), refresh)))
	d.trigger(src, "AFTER", "DELETE", "The row has gone.", d.deleteKey(rowRef("OLD")))
	for i := range d.Spec.Joins {
		d.makePartner(&d.Spec.Joins[i])
	}
}

// makePartner adds the triggers of a joined table: they compute the cache rows of all source rows that point to it.
func (d *Design) makePartner(j *Join) {
	pointing := func(row string) string {
		var all []string
		for _, o := range j.On {
			all = append(all, d.tableRef(o.Equals)+" = "+row+"."+schema.QuoteName(o.Column))
		}
		return strings.Join(all, " AND ")
	}
	// Only a condition or an inner join on this table lets its changes add or remove cache rows.
	selects := j.Inner
	if d.when != nil {
		selects = selects || slices.ContainsFunc(refs(d.when), func(r Ref) bool { return r.Alias != "" })
	}
	for _, other := range d.Spec.Joins {
		selects = selects || other.Inner
	}
	refresh := func(where string) string {
		if selects {
			return d.deleteLeavers(where) + "\n" + d.upsertSelect(d.tableRef, where)
		}
		return d.upsertSelect(d.tableRef, where)
	}
	rows := fmt.Sprintf("rows of %s that point here", d.Spec.Source)
	d.trigger(j.Table, "AFTER", "INSERT", "The "+rows+" get their partner.", d.toleratePartner(pointing("NEW"), refresh(pointing("NEW"))))

	var used []Ref
	for _, r := range d.used() {
		if r.Alias == j.Alias {
			used = append(used, r)
		}
	}
	both := pointing("NEW")
	if o := pointing("OLD"); o != both {
		both = "(" + o + " OR " + both + ")"
		if len(j.On) == 1 {
			name := schema.QuoteName(j.On[0].Column)
			both = fmt.Sprintf("%s IN (OLD.%s, NEW.%s)", d.tableRef(j.On[0].Equals), name, name)
		}
	}
	d.trigger(j.Table, "AFTER", "UPDATE", "Something that is stored has changed, for the "+rows+".",
		d.toleratePartner(both, ifThen(d.changed(used), refresh(both))))
	d.trigger(j.Table, "AFTER", "DELETE", "The "+rows+" lose their partner.", d.toleratePartner(pointing("OLD"), refresh(pointing("OLD"))))
	d.note("Cost: a change of a row of %s writes the cache rows of all rows of %s that point to it, in the same transaction.", j.Table, d.Spec.Source)
}

// Deadlocks and lock waits must reach the application: its transaction may have been rolled back already.
const passLocks = "DECLARE EXIT HANDLER FOR 1205, 1213 RESIGNAL;\n"

// tolerate lets the application's write go through when the cache row can't be written. old is for an update whose old
// cache row may be there still when something fails.
func (d *Design) tolerate(row string, old bool, body string) string {
	if !d.Spec.Tolerant {
		return body
	}
	var columns, values []string
	for i, c := range d.base.rowKey() {
		columns = append(columns, fmt.Sprintf("id%d", i+1))
		values = append(values, row+"."+schema.QuoteName(c.Name))
	}
	drop := d.deleteKey(rowRef(row))
	if old {
		drop = d.deleteKey(rowRef("OLD")) + "\n  " + drop
	}
	return passLocks + fmt.Sprintf(`DECLARE EXIT HANDLER FOR SQLEXCEPTION
BEGIN
  -- The write goes through. No answer is better than an old one; %s computes it again.
  %s
  INSERT INTO %s (%s) VALUES (%s) ON DUPLICATE KEY UPDATE tries = 0;
END;
`, d.RefreshProcedure(), drop, d.MarkTable(), strings.Join(columns, ", "), strings.Join(values, ", ")) + body
}

func (d *Design) toleratePartner(where, body string) string {
	if !d.Spec.Tolerant {
		return body
	}
	return passLocks + fmt.Sprintf(`DECLARE EXIT HANDLER FOR SQLEXCEPTION
BEGIN
  -- The write goes through. No answer is better than an old one; %s computes them again.
  %s
  %s
END;
`, d.RefreshProcedure(), indent(1, d.deleteSelect(where)), indent(1, d.markSelect(where, "tries = 0"))) + body
}

// ids lists id1 to idN with a prefix.
func ids(prefix string, n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf("%s%d", prefix, i+1))
	}
	return strings.Join(all, ", ")
}

// identity are the columns that marks and positions hold: the row's key, or the group.
func (d *Design) identity() []*schema.Column {
	if !d.grouped() {
		return d.base.rowKey()
	}
	var all []*schema.Column
	for _, g := range d.Spec.Group {
		c, _ := d.column(Ref{Column: g}) // checkKey has seen it
		all = append(all, c)
	}
	return all
}

func identityColumns(columns []*schema.Column) string {
	var all []string
	for _, c := range columns {
		all = append(all, "s."+schema.QuoteName(c.Name))
	}
	return strings.Join(all, ", ")
}

// markSelect marks the rows or groups of the source rows that fit where.
func (d *Design) markSelect(where, onDuplicate string) string {
	id := d.identity()
	return fmt.Sprintf("INSERT INTO %s (%s)\nSELECT DISTINCT %s\n%s\nWHERE %s\nON DUPLICATE KEY UPDATE %s;",
		d.MarkTable(), ids("id", len(id)), identityColumns(id), d.from(d.tableRef), where, onDuplicate)
}

// addPositions adds the table that remembers how far filling has come, and the one of marks where the design needs it.
func (d *Design) addPositions() {
	id := d.identity()
	position := []string{
		"one TINYINT NOT NULL PRIMARY KEY", "finished TINYINT NOT NULL DEFAULT 0", "steps BIGINT UNSIGNED NOT NULL DEFAULT 0",
	}
	due := []string{}
	for i, c := range id {
		position = append(position, fmt.Sprintf("id%d %s NULL", i+1, typeOf(c)))
		due = append(due, fmt.Sprintf("id%d %s NOT NULL", i+1, typeOf(c)))
	}
	d.addTable(ident(d.Spec.Cache.Table+"_fill"), fillComment, false, position...)
	if d.marks() {
		due = append(due, "since TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6)", "tries INT NOT NULL DEFAULT 0",
			"PRIMARY KEY ("+ids("id", len(id))+")", "KEY since (since)")
		d.addTable(ident(d.Spec.Cache.Table+"_due"), dueComment, false, due...)
	}
}

// declare writes a variable for each column: lo1, lo2 and so on.
func declare(prefix string, columns []*schema.Column) string {
	var b strings.Builder
	for i, c := range columns {
		fmt.Fprintf(&b, "DECLARE %s%d %s;\n", prefix, i+1, typeOf(c))
	}
	return b.String()
}

const fillParameters = "IN chunk INT, IN chunks INT"

// makeRowFill adds the procedure that copies the rows that are there already.
func (d *Design) makeRowFill() {
	d.addPositions()
	id := d.identity()
	n := len(id)
	fill := d.FillTable()
	chunk := "(lo1 IS NULL OR " + beyond(id, "lo", ">") + ") AND (hi1 IS NULL OR " + beyond(id, "hi", "<=") + ")"
	about, work := `-- Rows are read with shared locks, so that a change at the same time is neither lost nor overwritten.`, d.upsertSelect(d.tableRef, chunk)
	if d.Spec.Tolerant {
		about, work = `-- Rows are marked only: one that can't be computed must not hold up the others.`, d.markSelect(chunk, "tries = 0")
	}
	var moved, forget []string
	for i := range n {
		moved = append(moved, fmt.Sprintf("id%[1]d = hi%[1]d", i+1))
		forget = append(forget, fmt.Sprintf("hi%d = NULL", i+1))
	}
	d.procedure("bc_"+d.Spec.Name+"_fill", fillParameters, fmt.Sprintf(
		`-- Copies what is there already: `+"`chunk`"+` rows at a time in key order, each chunk in a transaction of its own, `+"`chunks`"+`
-- chunks in one call (NULL: all). The next call goes on where the last one stopped. To begin anew:
--   DELETE FROM %[1]s;
%[13]s
%[2]s%[3]sDECLARE rest INT DEFAULT chunks;
DECLARE skip INT DEFAULT GREATEST(IFNULL(chunk, 500), 1) - 1;
DECLARE is_done INT DEFAULT 0;
DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
INSERT INTO %[1]s (one) VALUES (1) ON DUPLICATE KEY UPDATE one = 1;
fill: LOOP
  SELECT finished, %[4]s INTO is_done, %[5]s FROM %[1]s WHERE one = 1;
  IF is_done OR rest <= 0 THEN
    LEAVE fill;
  END IF;
  SET %[6]s;
  SELECT %[7]s INTO %[8]s FROM %[9]s AS s
  WHERE lo1 IS NULL OR %[10]s
  ORDER BY %[7]s LIMIT skip, 1;
  START TRANSACTION;
  %[11]s
  IF hi1 IS NULL THEN
    UPDATE %[1]s SET finished = 1, steps = steps + 1 WHERE one = 1;
  ELSE
    UPDATE %[1]s SET %[12]s, steps = steps + 1 WHERE one = 1;
  END IF;
  COMMIT;
  SET rest = rest - 1;
END LOOP;`,
		fill, declare("lo", id), declare("hi", id), ids("id", n), ids("lo", n), strings.Join(forget, ", "),
		identityColumns(id), ids("hi", n), quote(d.Spec.Source), beyond(id, "lo", ">"),
		indent(1, work), strings.Join(moved, ", "), about))
}

// makeRowRefresh adds what computes the rows whose cache row could not be written.
func (d *Design) makeRowRefresh() {
	id := d.identity()
	var marked, is []string
	for i, c := range id {
		marked = append(marked, fmt.Sprintf("id%[1]d = p%[1]d", i+1))
		is = append(is, fmt.Sprintf("s.%s = p%d", schema.QuoteName(c.Name), i+1))
	}
	row := strings.Join(is, " AND ")
	work := d.upsertSelect(d.tableRef, row)
	if d.member(d.tableRef) != "" {
		work = d.deleteLeavers(row) + "\n" + work
	}
	lock := d.lock("refresh")
	d.procedure("bc_"+d.Spec.Name+"_refresh", "IN marks INT", fmt.Sprintf(
		`-- Computes up to `+"`marks`"+` rows that could not be written before. A row that fails again goes to the end of the list.
%[1]sDECLARE rest INT DEFAULT marks;
DECLARE is_there BOOL;
DECLARE CONTINUE HANDLER FOR NOT FOUND SET is_there = FALSE;
IF GET_LOCK(%[2]s, 0) THEN
  work: LOOP
    SET is_there = TRUE;
    SELECT %[3]s INTO %[4]s FROM %[5]s ORDER BY tries, since LIMIT 1;
    IF NOT is_there OR rest <= 0 THEN
      LEAVE work;
    END IF;
    BEGIN
      DECLARE EXIT HANDLER FOR SQLEXCEPTION
      BEGIN
        ROLLBACK;
        UPDATE %[5]s SET tries = tries + 1 WHERE %[6]s;
      END;
      START TRANSACTION;
      %[7]s
      DELETE FROM %[5]s WHERE %[6]s;
      COMMIT;
    END;
    SET rest = rest - 1;
  END LOOP;
  DO RELEASE_LOCK(%[2]s);
END IF;`, declare("p", id), lock, ids("id", len(id)), ids("p", len(id)), d.MarkTable(), strings.Join(marked, " AND "), indent(3, work)))
	d.refreshEvent()
}

func (d *Design) refreshEvent() {
	d.event("bc_"+d.Spec.Name+"_refresh", d.Spec.Every, "binlogcache: computes what is due of "+d.Spec.Cache.String(),
		"CALL "+d.RefreshProcedure()+"(1000);")
}
