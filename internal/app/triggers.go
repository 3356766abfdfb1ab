package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/progress"
	"github.com/binlogcache/binlogcache/triggers"
	"github.com/binlogcache/binlogcache/triggers/install"
)

// measureRounds are the inserts and deletes that installing measures with.
const measureRounds = 100

// triggersRun is one run of the command triggers.
type triggersRun struct {
	*config.Triggers
	session        *install.Session
	design         *triggers.Design
	stdout, stderr io.Writer
}

func runTriggers(ctx context.Context, cfg *config.Triggers, stdout, stderr io.Writer) error {
	text, err := os.ReadFile(cfg.Spec)
	if err != nil {
		return fmt.Errorf("--spec: %w", err)
	}
	spec, err := triggers.ParseSpec(cfg.Spec, text)
	if err != nil {
		return err
	}
	session, err := install.Open(ctx, cfg.Sources[0].Reveal())
	if err != nil {
		return err
	}
	defer session.Close()
	session.Logf = func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) }
	run := &triggersRun{Triggers: cfg, session: session, stdout: stdout, stderr: stderr}
	if cfg.Action == config.TriggersUninstall {
		return run.uninstall(ctx, spec) // also when the source's columns are not there any more
	}
	if run.design, err = session.Design(ctx, spec); err != nil {
		return err
	}
	switch cfg.Action {
	case config.TriggersGenerate:
		return run.generate()
	case config.TriggersInstall:
		return run.install(ctx)
	default:
		return run.verify(ctx)
	}
}

func (r *triggersRun) say(format string, args ...any) { fmt.Fprintf(r.stdout, format+"\n", args...) }

// bar shows progress on the error output, so that what is printed stays clean.
func (r *triggersRun) bar(title string) (report func(done, total int64), end func()) {
	var bar *progress.Bar
	var last int64
	report = func(done, total int64) {
		if bar == nil {
			bar = progress.New(r.stderr, title, total)
		}
		bar.Set(done)
		last = done
	}
	return report, func() {
		if bar != nil {
			bar.Done(last)
		}
	}
}

func (r *triggersRun) generate() error {
	var statements []string
	switch r.Part {
	case "uninstall":
		statements = r.design.UninstallStatements(r.DropTable)
	case "promote":
		statements = r.design.PromoteStatements()
	default:
		if !r.Statements {
			_, err := io.WriteString(r.stdout, r.design.Script())
			return err
		}
		statements = r.design.Statements()
	}
	if !r.Statements {
		_, err := io.WriteString(r.stdout, triggers.List(statements))
		return err
	}
	out := json.NewEncoder(r.stdout)
	out.SetEscapeHTML(false)
	for _, s := range statements {
		if err := out.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func (r *triggersRun) install(ctx context.Context) error {
	if err := r.session.Ready(ctx, r.design); err != nil {
		return err
	}
	steps, err := r.session.Plan(ctx, r.design)
	if err != nil {
		return err
	}
	for _, s := range steps {
		r.say("%s", s)
	}
	for _, n := range r.design.Notes {
		r.say("note: %s", n)
	}
	if r.Register == "row" {
		check := r.session.PrepareRegister
		if r.DryRun {
			check = r.session.Registrable
		}
		if err := check(ctx, r.design); err != nil {
			return err
		}
	}
	if r.DryRun {
		r.say("dry run: nothing was changed")
		return nil
	}
	if r.Measure && r.design.Spec.Query == "" && changes(steps) {
		r.measure(ctx, steps)
	}
	fresh, err := r.session.Apply(ctx, r.design, steps)
	if err != nil {
		return err
	}
	if fresh || r.design.FillProcedure() == "" {
		report, end := r.bar("filling " + r.design.Spec.Cache.String())
		err := r.session.Complete(ctx, r.design, report)
		end()
		if err != nil {
			return err
		}
	}
	switch r.Register {
	case "row":
		if err := r.session.Register(ctx, r.design); err != nil {
			return err
		}
		r.say("container %s is in innodb_memcache.containers; clients read get @@%[1]s.KEY", r.design.Spec.Name)
	case "yaml":
		r.say("%s", install.ContainerYAML(r.design))
	}
	r.say("%s is installed", r.design.Spec.Name)
	return nil
}

func changes(steps []install.Step) bool {
	return slices.ContainsFunc(steps, func(s install.Step) bool { return s.Action != install.ActionKeep })
}

// measure says what the triggers will cost. It needs the cache table's schema, which may not be there yet. That it can't be
// measured keeps nobody from installing.
func (r *triggersRun) measure(ctx context.Context, steps []install.Step) {
	var schemas []install.Step
	for _, s := range steps {
		if s.Object.Kind == triggers.KindSchema {
			schemas = append(schemas, s)
		}
	}
	err := r.session.Make(ctx, schemas)
	var cost install.Cost
	if err == nil {
		cost, err = r.session.Measure(ctx, r.design, measureRounds)
	}
	if err != nil {
		r.say("cost: not measured: %v", err)
		return
	}
	r.say("cost: %s", cost)
}

func (r *triggersRun) uninstall(ctx context.Context, spec *triggers.Spec) error {
	if r.DryRun {
		steps, err := r.session.UninstallPlan(ctx, spec, r.DropTable)
		if err != nil {
			return err
		}
		for _, s := range steps {
			r.say("%s", s)
		}
		r.say("dry run: nothing was changed")
		return nil
	}
	gone, err := r.session.Unregister(ctx, spec)
	if err != nil {
		return err
	}
	if gone {
		r.say("container %s is out of innodb_memcache.containers", spec.Name)
	}
	steps, err := r.session.Uninstall(ctx, spec, r.DropTable)
	for _, s := range steps {
		r.say("%s", s)
	}
	if err != nil {
		return err
	}
	if !r.DropTable {
		r.say("the table %s stays as it is (--drop-table removes it)", spec.Cache)
	}
	return nil
}

func (r *triggersRun) verify(ctx context.Context) error {
	report, err := r.session.Verify(ctx, r.design, r.Rows)
	if err != nil {
		return err
	}
	name := r.design.Spec.Cache
	how := "row by row"
	if report.BySums {
		how = "by sums"
	}
	r.say("%s: %d rows, %d wanted (compared %s): %d missing, %d stale, %d of no source row; %d wait to be computed",
		name, report.Cached, report.Wanted, how, report.Missing, report.Stale, report.Orphans, report.Due)
	for _, e := range report.Examples {
		r.say("   %s", e)
	}
	condition, err := r.session.Examine(ctx, r.design)
	if err != nil {
		return err
	}
	for _, a := range condition.Asleep {
		r.say("note: %s", a)
	}
	if condition.Blind {
		r.say("note: this account may see no trigger, procedure or event of %s: they were not looked at", r.design.Spec.Name)
	}
	wrong := report.Wrong()
	if r.Repair && (wrong > 0 || report.Due > 0) {
		bar, end := r.bar("repairing " + name.String())
		deleted, err := r.session.Repair(ctx, r.design, report, bar)
		end()
		if err != nil {
			return err
		}
		again, err := r.session.Verify(ctx, r.design, true)
		if err != nil {
			return err
		}
		r.say("repaired: %d rows of no source row deleted; %d rows are wrong now, %d wait to be computed", deleted, again.Wrong(), again.Due)
		wrong = again.Wrong()
	}
	var errs []error
	switch {
	case wrong > 0 && r.design.Spec.Query != "":
		r.say("the sources have changed since the event ran last; --repair runs it now")
	case wrong > 0:
		errs = append(errs, fmt.Errorf("%s: %d rows are wrong; --repair mends them", name, wrong))
	}
	if len(condition.Lost) > 0 {
		errs = append(errs, fmt.Errorf("lost or changed, or not for this account to see: %s; triggers install mends that", strings.Join(condition.Lost, ", ")))
	}
	for _, p := range []struct {
		name     string
		protocol install.Protocol
		address  config.Address
	}{{"memcached", install.Memcached, r.Memcached}, {"HandlerSocket", install.HandlerSocket, r.HandlerSocket}} {
		if !p.address.Off() {
			errs = append(errs, r.verifyMemory(ctx, p.name, p.protocol, p.address))
		}
	}
	return errors.Join(errs...)
}

func (r *triggersRun) verifyMemory(ctx context.Context, name string, p install.Protocol, address config.Address) error {
	bar, end := r.bar("reading over " + name)
	report, err := r.session.VerifyMemory(ctx, r.design, p, address.Network, address.Address, bar)
	end()
	if err != nil {
		return err
	}
	r.say("%s: %d rows read over %s: %d missing, %d different", address, report.Compared, name, report.Missing, report.Different)
	for _, e := range report.Examples {
		r.say("   %s", e)
	}
	if n := report.Missing + report.Different; n > 0 {
		return fmt.Errorf("%s: %d rows are not what the table %s holds", address, n, r.design.Spec.Cache)
	}
	return nil
}
