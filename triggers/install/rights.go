package install

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/go-sql-driver/mysql"

	"github.com/binlogcache/binlogcache/schema"
	"github.com/binlogcache/binlogcache/triggers"
)

// account returns the name by which the server grants rights to this session, quoted for SQL.
func (s *Session) account(ctx context.Context) string {
	var name string
	if err := s.one(ctx, "SELECT CURRENT_USER()", nil, &name); err != nil {
		return "this account"
	}
	i := strings.LastIndexByte(name, '@')
	if i < 0 {
		return "this account"
	}
	return schema.QuoteName(name[:i]) + "@" + schema.QuoteName(name[i+1:])
}

// denied is how both servers say that a right on a table, a column or a procedure is missing.
var denied = regexp.MustCompile("^([A-Za-z, ]+) command denied to user .*(?: for table |in table )[`']?(?:[^`']*`\\.`)?([^`']*)[`']?$")

// schemaRights are needed on the schema of an object to make it. The servers don't name them.
var schemaRights = map[triggers.Kind]string{
	triggers.KindSchema: "ALL PRIVILEGES", triggers.KindTable: "ALL PRIVILEGES", triggers.KindProcedure: "CREATE ROUTINE, ALTER ROUTINE, EXECUTE", triggers.KindEvent: "EVENT",
}

// remedy names the GRANT that an error asks for; empty where it is no error of rights. o is the object that was to be made or
// dropped.
func (s *Session) remedy(ctx context.Context, err error, o *triggers.Object) string {
	e := (*mysql.MySQLError)(nil)
	if !errors.As(err, &e) {
		return ""
	}
	on, right := schema.QuoteName(o.Name.Schema)+".*", schemaRights[o.Kind]
	if o.Kind == triggers.KindTrigger {
		right = "TRIGGER"
		if o.On.Table != "" {
			on = schema.QuoteName(o.On.Schema) + "." + schema.QuoteName(o.On.Table)
		} else {
			on = schema.QuoteName(o.Name.Schema) + ".*"
		}
	}
	switch e.Number {
	case errAccess, errAccessColumn:
		if m := denied.FindStringSubmatch(e.Message); m != nil && o.Kind != triggers.KindTrigger {
			right = strings.ToUpper(m[1])
		}
	case errAccessDB, errDenyProc:
	case errNoSuper:
		return ": " + errSuper.Error()
	case errNeedsPriv:
		return ": for a DEFINER other than oneself MySQL wants SET_ANY_DEFINER, MariaDB SET USER"
	default:
		return ""
	}
	return fmt.Sprintf(": GRANT %s ON %s TO %s", right, on, s.account(ctx))
}

// mayDrop wants the right to take off again what is going to be made in a schema.
func (s *Session) mayDrop(ctx context.Context, schemaName string) error {
	// Rights are looked at before names: nothing is dropped.
	none := triggers.Object{Kind: triggers.KindTable, Name: schema.Name{Schema: schemaName, Table: "bc_no_such_table"}}
	if err := s.exec(ctx, none.Drop()); err != nil && !absent(err) {
		return fmt.Errorf("right to drop tables: %w%s", err, s.remedy(ctx, err, &none))
	}
	return nil
}

// mayWork wants the rights that the triggers, procedures and events need when they run. The design's tables must be there.
func (s *Session) mayWork(ctx context.Context, d *triggers.Design) error {
	if d.Spec.Definer != "" {
		return s.askDefiner(ctx, d, false)
	}
	for _, st := range d.RightsStatements() {
		p, err := s.conn.PrepareContext(ctx, st)
		if err != nil {
			return s.workError(err, d, s.account(ctx))
		}
		if err := p.Close(); err != nil {
			return err
		}
	}
	return nil
}

// askDefiner tries the rights of the spec's definer; fire as in RightsProcedure.
func (s *Session) askDefiner(ctx context.Context, d *triggers.Design, fire bool) (err error) {
	p := d.RightsProcedure(fire)
	for _, st := range []string{p.Drop(), p.Create} {
		if err := s.exec(ctx, st); err != nil {
			return fmt.Errorf("try the rights of definer %s: %w%s", d.Spec.Definer, err, s.remedy(ctx, err, &p))
		}
	}
	defer func() { err = errors.Join(err, s.exec(context.WithoutCancel(ctx), p.Drop())) }()
	err = s.exec(ctx, "CALL "+p.Quoted()+"()")
	if fire && code(err) == errNeedsPriv {
		var tables []string
		for _, o := range d.Objects {
			if on := schema.QuoteName(o.On.Schema) + "." + schema.QuoteName(o.On.Table); o.Kind == triggers.KindTrigger && !slices.Contains(tables, on) {
				tables = append(tables, on)
			}
		}
		return d.Spec.DefinerError("without the right TRIGGER of %s every write would fail: GRANT TRIGGER ON %s TO %[1]s", d.Spec.Definer, strings.Join(tables, " and on "))
	}
	if err != nil {
		return d.Spec.DefinerError("%s", s.workError(err, d, d.Spec.Definer))
	}
	return nil
}

// workError explains which right is missing for triggers, procedures and events to work.
func (s *Session) workError(err error, d *triggers.Design, account string) error {
	e := (*mysql.MySQLError)(nil)
	if !errors.As(err, &e) {
		return err
	}
	on, right := schema.QuoteName(d.Spec.Cache.Schema)+".*", "ALL PRIVILEGES"
	if m := denied.FindStringSubmatch(e.Message); m != nil {
		right = strings.ToUpper(m[1])
		tables := []schema.Name{d.Spec.Source}
		for _, j := range d.Spec.Joins {
			tables = append(tables, j.Table)
		}
		if i := slices.IndexFunc(tables, func(n schema.Name) bool { return n.Table == m[2] }); i >= 0 && right == "SELECT" {
			on = schema.QuoteName(tables[i].Schema) + "." + schema.QuoteName(tables[i].Table)
		} else if d.Spec.Query != "" && right == "SELECT" && m[2] != d.Spec.Cache.Table {
			on = schema.QuoteName(m[2])
		}
	} else if e.Number == errAccessDB && d.Spec.Query != "" {
		right = "CREATE TEMPORARY TABLES"
	} else if e.Number == errDenyProc {
		right = "EXECUTE"
	}
	return fmt.Errorf("the triggers and procedures of %s could not work: %w: GRANT %s ON %s TO %s", d.Spec.Name, err, right, on, account)
}

// mayFire wants the definer to have TRIGGER on the tables of the triggers, which are there now: without it every write fails.
func (s *Session) mayFire(ctx context.Context, d *triggers.Design) error {
	if d.Spec.Definer == "" {
		return nil
	}
	return s.askDefiner(ctx, d, true)
}

// hidden wants the account to see all objects of the spec: of what it may not see, information_schema shows nothing, and
// dropping the tables under a trigger that stays would make every write to its table fail.
func (s *Session) hidden(ctx context.Context, spec *triggers.Spec, seen []Step) error {
	tables := []schema.Name{}
	if spec.Query == "" {
		tables = append(tables, spec.Source)
		for _, j := range spec.Joins {
			tables = append(tables, j.Table)
		}
		if c, err := s.Catalog(ctx, spec); err == nil { // parents by foreign keys; the source may be gone
			for name := range c.Tables {
				if !slices.Contains(tables, name) {
					tables = append(tables, name)
				}
			}
		}
	}
	for _, o := range spec.Candidates(tables...) {
		if slices.ContainsFunc(seen, func(st Step) bool { return st.Object.Kind == o.Kind && st.Object.Name == o.Name }) {
			continue
		}
		there, err := s.visible(ctx, &o)
		if err != nil {
			return err
		}
		if there { // somebody else's
			continue
		}
		// Of what can't be seen there is nothing, or the server says which right is missing.
		err = s.exec(ctx, o.Drop())
		if err == nil || absent(err) {
			continue
		}
		if code(err) == 0 {
			return err
		}
		err = fmt.Errorf("%s %s may be there, and this account may neither see nor drop it: %w%s", strings.ToLower(o.Kind.String()), o.Quoted(), err, s.remedy(ctx, err, &o))
		if o.Kind != triggers.KindProcedure {
			return fmt.Errorf("%w; nothing was removed", err)
		}
		s.logf("%v", err) // a procedure that stays does no harm
	}
	return nil
}

func (s *Session) visible(ctx context.Context, o *triggers.Object) (bool, error) {
	_, err := s.stored(ctx, o)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case errors.Is(err, errHidden):
		return true, nil
	}
	return err == nil, err
}
