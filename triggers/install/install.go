package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
)

// The actions of a Step.
const (
	ActionKeep    = "keep"
	ActionCreate  = "create"
	ActionReplace = "replace"
	ActionDrop    = "drop" // of an older version of the spec
)

// Step is what is to be done with one object.
type Step struct {
	Action string
	Object triggers.Object
}

// String is the step on one line.
func (st Step) String() string {
	return fmt.Sprintf("%-8s %-9s %s", st.Action, strings.ToLower(st.Object.Kind.String()), st.Object.Quoted())
}

// Plan compares the design with what is on the server. It is an error when something of somebody else's has one of our
// names, or when the cache table is there in another shape.
func (s *Session) Plan(ctx context.Context, d *triggers.Design) ([]Step, error) {
	var steps []Step
	var errs []error
	known := make(map[string]bool)
	for _, o := range d.Objects {
		known[o.Kind.String()+o.Quoted()] = true
		text, err := s.stored(ctx, &o)
		step := Step{ActionKeep, o}
		switch {
		case errors.Is(err, sql.ErrNoRows):
			step.Action = ActionCreate
		case err != nil:
			return nil, fmt.Errorf("look at %s %s: %w", o.Kind, o.Quoted(), err)
		case o.Kind == triggers.KindSchema, o.Current(text):
		case !o.Ours(text):
			errs = append(errs, fmt.Errorf("%s %s is there and was not made by binlogcache: rename or drop it, or change name in the spec", strings.ToLower(o.Kind.String()), o.Quoted()))
		case !mine(d.Spec, &o, text):
			errs = append(errs, fmt.Errorf("%s %s is there and belongs to another spec or another cache table: uninstall that, or change name in the spec", strings.ToLower(o.Kind.String()), o.Quoted()))
		case o.Data:
			errs = append(errs, fmt.Errorf("table %s is there with another shape (%s): take it off first with triggers uninstall --drop-table; until it is filled again clients find nothing in it", o.Quoted(), text))
		default:
			step.Action = ActionReplace
		}
		steps = append(steps, step)
	}
	leftovers, err := s.leftovers(ctx, d.Spec, known)
	return append(leftovers, steps...), errors.Join(append(errs, err)...)
}

var errHidden = errors.New("the account may not see its text: grant SHOW_ROUTINE (MySQL) or SELECT on mysql.proc (MariaDB), or use the account that made it")

// stored returns the body, or for a table the comment, as the server has it; sql.ErrNoRows where there is none.
func (s *Session) stored(ctx context.Context, o *triggers.Object) (string, error) {
	query := map[triggers.Kind]string{
		triggers.KindSchema:    "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = ? AND '' = ?",
		triggers.KindTable:     "SELECT TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ?",
		triggers.KindProcedure: "SELECT ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = ? AND ROUTINE_NAME = ? AND ROUTINE_TYPE = 'PROCEDURE'",
		triggers.KindTrigger:   "SELECT ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = ? AND TRIGGER_NAME = ?",
		triggers.KindEvent:     "SELECT EVENT_DEFINITION FROM information_schema.EVENTS WHERE EVENT_SCHEMA = ? AND EVENT_NAME = ?",
	}[o.Kind]
	var text sql.NullString
	if err := s.one(ctx, query, []any{o.Name.Schema, o.Name.Table}, &text); err != nil {
		return "", err
	}
	if !text.Valid {
		return "", errHidden
	}
	return text.String, nil
}

// mine tells whether an object of ours is of this spec, in any version.
func mine(spec *triggers.Spec, o *triggers.Object, text string) bool {
	if o.Kind == triggers.KindTable {
		ours, _ := spec.Table(o.Name.Table, text)
		return ours
	}
	return spec.Mentions(text)
}

// leftovers finds events, triggers and procedures of any version of the spec that are not known: ours by their mark, and
// about the same cache table.
func (s *Session) leftovers(ctx context.Context, spec *triggers.Spec, known map[string]bool) ([]Step, error) {
	var steps []Step
	for _, q := range []struct {
		kind  triggers.Kind
		query string
	}{
		{triggers.KindEvent, "SELECT EVENT_SCHEMA, EVENT_NAME, EVENT_DEFINITION FROM information_schema.EVENTS WHERE EVENT_NAME LIKE ?"},
		{triggers.KindTrigger, "SELECT TRIGGER_SCHEMA, TRIGGER_NAME, ACTION_STATEMENT FROM information_schema.TRIGGERS WHERE TRIGGER_NAME LIKE ?"},
		{triggers.KindProcedure, "SELECT ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_DEFINITION FROM information_schema.ROUTINES WHERE ROUTINE_NAME LIKE ?"},
	} {
		pattern := strings.ReplaceAll("bc_"+spec.Name+"_", "_", `\_`) + "%"
		err := s.rows(ctx, q.query, []any{pattern}, func(v [][]byte) error {
			o := triggers.Object{Kind: q.kind, Name: schema.Name{Schema: string(v[0]), Table: string(v[1])}}
			if v[2] == nil && o.Name.Schema == spec.Cache.Schema {
				return fmt.Errorf("%s: %w", o.Quoted(), errHidden)
			}
			if text := string(v[2]); !known[o.Kind.String()+o.Quoted()] && o.Ours(text) && spec.Mentions(text) {
				steps = append(steps, Step{ActionDrop, o})
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("look for older versions: %w", err)
		}
	}
	return steps, nil
}

// Ready checks the server's settings and the account's rights as far as they can be known beforehand. The errors say
// how to mend what is wrong.
func (s *Session) Ready(ctx context.Context, d *triggers.Design) error {
	var errs []error
	var hasTriggers, hasEvents bool
	for _, o := range d.Objects {
		hasTriggers = hasTriggers || o.Kind == triggers.KindTrigger
		hasEvents = hasEvents || o.Kind == triggers.KindEvent
	}
	// By SHOW, because a variable that a later version no longer has is no error there.
	settings := make(map[string]string)
	err := s.Query(ctx, "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_bin', 'log_bin_trust_function_creators', 'event_scheduler')", func(v [][]byte) error {
		settings[string(v[0])] = strings.ToUpper(string(v[1]))
		return nil
	})
	if err != nil {
		return err
	}
	if hasTriggers && settings["log_bin"] == "ON" && settings["log_bin_trust_function_creators"] == "OFF" {
		may, err := s.maySuper(ctx)
		if err != nil {
			return err
		}
		if !may {
			errs = append(errs, errSuper)
		}
	}
	if hasEvents {
		switch settings["event_scheduler"] {
		case "ON":
		case "DISABLED":
			errs = append(errs, errors.New("event_scheduler is DISABLED: take that out of the server's configuration, set event_scheduler = ON there and restart it"))
		default:
			errs = append(errs, errors.New("event_scheduler is OFF, so the events would never run: SET GLOBAL event_scheduler = ON, and event_scheduler = ON in the server's configuration"))
		}
	}
	if d.Spec.Definer != "" {
		err := s.Query(ctx, "SHOW GRANTS FOR "+d.Spec.Definer, func([][]byte) error { return nil })
		if code(err) == errNoAccount { // others say that this account may not look
			errs = append(errs, d.Spec.DefinerError("there is no account %s: every write to the tables would fail (error 1449); create it first", d.Spec.Definer))
		}
	}
	return errors.Join(errs...)
}

// maySuper tells whether the account has SUPER, or a role that may have it: then the server has the last word.
func (s *Session) maySuper(ctx context.Context) (bool, error) {
	var role sql.NullString
	if err := s.one(ctx, "SELECT CURRENT_ROLE()", nil, &role); err != nil {
		return false, err
	}
	may := role.Valid && role.String != "NONE"
	err := s.Query(ctx, "SHOW GRANTS", func(v [][]byte) error {
		g := string(v[0])
		may = may || strings.Contains(g, "ON *.*") && (strings.Contains(g, "SUPER") || strings.Contains(g, "ALL PRIVILEGES"))
		return nil
	})
	return may, err
}

// errSuper explains error 1419.
var errSuper = errors.New("the binary log is on and this account may not create triggers (error 1419): either install with an account that has SUPER," +
	" or let the server trust creators: SET GLOBAL log_bin_trust_function_creators = 1 (safe with binlog_format = ROW)")

// The states of filling, in the column finished: the procedure ends with filled, Complete with settled.
const (
	filled  = 1
	settled = 2
)

// Apply does the steps of a plan. fresh is true when triggers were made or changed, or an earlier installation has not come
// to its end: then Complete has work to do. When the server refuses a step, or a right is missing that the triggers would
// need, what this call has made is taken off again, unless an older version has been replaced already.
func (s *Session) Apply(ctx context.Context, d *triggers.Design, steps []Step) (fresh bool, err error) {
	if err := s.sweep(ctx, d.Spec.Cache.Schema); err != nil {
		return false, err
	}
	anew := d.FillTable() != "" && slices.ContainsFunc(steps, func(st Step) bool { return st.Action != ActionKeep && st.Object.Kind == triggers.KindTrigger })
	// What changes while there is no trigger, or another one, is found by filling anew. That is written down before the first
	// trigger is touched, in case this process does not live to see the last; and after it, in case the event was quick.
	kept := slices.ContainsFunc(steps, func(st Step) bool {
		return st.Action == ActionKeep && st.Object.Kind == triggers.KindTable && st.Object.Quoted() == d.FillTable()
	})
	if anew && kept {
		if err := s.exec(ctx, "DELETE FROM "+d.FillTable()); err != nil {
			return false, s.workError(err, d, s.account(ctx))
		}
	}
	if made, err := s.makeAll(ctx, d, steps); err != nil {
		return false, s.takeBack(ctx, made, err)
	}
	if anew {
		if err := s.exec(ctx, "DELETE FROM "+d.FillTable()); err != nil {
			return false, err
		}
	}
	state, err := s.filling(ctx, d)
	return state < settled, err
}

// makeAll does steps and looks at rights between them. made are those that were begun.
func (s *Session) makeAll(ctx context.Context, d *triggers.Design, steps []Step) (made []Step, err error) {
	var drop, work bool // looked at
	var triggered bool  // a trigger was made
	for _, st := range steps {
		if st.Action == ActionKeep {
			continue
		}
		kind := st.Object.Kind
		if kind != triggers.KindSchema && !drop {
			drop = true
			if err := s.mayDrop(ctx, d.Spec.Cache.Schema); err != nil {
				return made, err
			}
		}
		if st.Action != ActionDrop && kind >= triggers.KindTrigger && !work {
			work = true
			if err := s.mayWork(ctx, d); err != nil {
				return made, err
			}
		}
		made = append(made, st)
		if err := s.Make(ctx, []Step{st}); err != nil {
			return made, err
		}
		triggered = triggered || st.Action != ActionDrop && kind == triggers.KindTrigger
	}
	if triggered {
		return made, s.mayFire(ctx, d)
	}
	return made, nil
}

// takeBack drops what has been made before err, the newest first. Where this process or the server is going down nothing is
// dropped: the next Apply goes on.
func (s *Session) takeBack(ctx context.Context, made []Step, err error) error {
	if code(err) == 0 && !errors.As(err, new(*triggers.SpecError)) || ctx.Err() != nil || len(made) == 0 {
		return err
	}
	if slices.ContainsFunc(made, func(st Step) bool { return st.Action != ActionCreate }) {
		return fmt.Errorf("%w (an older version is replaced in part: install again, or uninstall)", err)
	}
	if made[0].Object.Kind == triggers.KindSchema {
		made = made[1:] // others may have put something into it
	}
	if len(made) == 0 {
		return err
	}
	for _, st := range slices.Backward(made) {
		drop := s.locked(ctx, "drop "+st.Object.Quoted(), func() error { return s.exec(ctx, st.Object.Drop()) })
		if drop != nil && !absent(drop) && st.Object.Quoted() != made[len(made)-1].Object.Quoted() {
			return fmt.Errorf("%w (and %s stays: %w; mend that, then uninstall)", err, st.Object.Quoted(), drop)
		}
	}
	return fmt.Errorf("%w (what had been made is taken off again)", err)
}

// filling returns the state of filling; a query is settled always.
func (s *Session) filling(ctx context.Context, d *triggers.Design) (state int, err error) {
	if d.FillTable() == "" {
		return settled, nil
	}
	err = s.one(ctx, "SELECT finished FROM "+d.FillTable()+" WHERE one = 1", nil, &state)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return state, err
}

// absent tells of a table or a schema that is not there.
func absent(err error) bool { return code(err) == errNoTable || code(err) == errNoDatabase }

// Complete fills the cache table and then deletes the rows that no trigger has taken away: those of source rows that went
// before all triggers were there, or that an older version had under other keys.
func (s *Session) Complete(ctx context.Context, d *triggers.Design, progress func(done, total int64)) error {
	if err := s.Fill(ctx, d, progress); err != nil || d.FillTable() == "" {
		return err
	}
	r := new(Report)
	if err := s.findOrphans(ctx, d, r); err != nil {
		return err
	}
	if _, err := s.removeOrphans(ctx, d, r.orphans); err != nil {
		return err
	}
	return s.exec(ctx, fmt.Sprintf("UPDATE %s SET finished = %d WHERE one = 1 AND finished = %d", d.FillTable(), settled, filled))
}

// Make does steps without looking at what is left to fill.
func (s *Session) Make(ctx context.Context, steps []Step) error {
	for _, st := range steps {
		o := st.Object
		if st.Action == ActionKeep {
			continue
		}
		what := fmt.Sprintf("%s %s %s", st.Action, strings.ToLower(o.Kind.String()), o.Quoted())
		create := o.Create
		drop := st.Action != ActionCreate
		if st.Action == ActionReplace && o.Kind == triggers.KindTrigger && s.Flavor == schema.FlavorMariaDB {
			// Without a moment between the old one and the new one.
			create, drop = strings.Replace(create, "CREATE ", "CREATE OR REPLACE ", 1), false
		}
		err := s.locked(ctx, what, func() error {
			if drop {
				if err := s.exec(ctx, o.Drop()); err != nil {
					return err
				}
			}
			if st.Action == ActionDrop {
				return nil
			}
			return s.exec(ctx, create)
		})
		if err != nil {
			return fmt.Errorf("%s: %w%s", what, err, s.remedy(ctx, err, &o))
		}
	}
	return nil
}

// UninstallPlan finds everything on the server that is of any version of the spec, in the order in which it goes; the cache
// table only when data is true. It does not need the source table.
func (s *Session) UninstallPlan(ctx context.Context, spec *triggers.Spec, data bool) ([]Step, error) {
	steps, err := s.leftovers(ctx, spec, nil)
	if err != nil {
		return nil, err
	}
	err = s.rows(ctx, "SELECT TABLE_NAME, TABLE_COMMENT FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? AND TABLE_COMMENT LIKE 'binlogcache: %' ORDER BY TABLE_NAME",
		[]any{spec.Cache.Schema}, func(v [][]byte) error {
			o := triggers.Object{Kind: triggers.KindTable, Name: schema.Name{Schema: spec.Cache.Schema, Table: string(v[0])}}
			var ours bool
			if ours, o.Data = spec.Table(o.Name.Table, string(v[1])); ours && (data || !o.Data) {
				steps = append(steps, Step{ActionDrop, o})
			}
			return nil
		})
	return steps, err
}

// Uninstall removes what UninstallPlan finds and returns what is gone. What is not ours is left alone.
func (s *Session) Uninstall(ctx context.Context, spec *triggers.Spec, data bool) ([]Step, error) {
	steps, err := s.UninstallPlan(ctx, spec, data)
	if err != nil {
		return nil, err
	}
	if err := s.hidden(ctx, spec, steps); err != nil {
		return nil, err
	}
	for i, st := range steps {
		if err := s.locked(ctx, st.String(), func() error { return s.exec(ctx, st.Object.Drop()) }); err != nil {
			return steps[:i], fmt.Errorf("%s: %w%s", st, err, s.remedy(ctx, err, &st.Object))
		}
	}
	return steps, s.sweep(ctx, spec.Cache.Schema)
}
