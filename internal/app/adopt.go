package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"

	"github.com/binlogcache/binlogcache/internal/adopt"
	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/progress"
	"github.com/binlogcache/binlogcache/internal/sqltext"
	"github.com/binlogcache/binlogcache/schema"
)

func runAdopt(ctx context.Context, cfg *config.Adopt, stdout, stderr io.Writer) error {
	if _, err := schema.ParsePatterns(strings.Join(cfg.Tables, ",")); err != nil {
		return fmt.Errorf("--tables: %w", err)
	}
	options := adopt.Options{
		Account: adopt.Account{User: cfg.User, Host: cfg.Host}, Address: "tcp(127.0.0.1:3306)/", Tables: cfg.Tables,
	}
	var conn *sqltext.Conn
	host := "127.0.0.1"
	if len(cfg.Sources) > 0 {
		source, err := sqltext.ParseDSN(cfg.Sources[0].Reveal())
		if err != nil {
			return fmt.Errorf("--source: %w", err)
		}
		if conn, err = sqltext.Dial(ctx, source); err != nil {
			return fmt.Errorf("--source: %w", err)
		}
		defer conn.Close()
		host = clientHost(source)
		bare := *source
		bare.User, bare.Password = "", ""
		options.Address = bare.String()
	}
	if options.Account.Host == "" {
		options.Account.Host = host
	}
	inv, err := takeInventory(ctx, cfg, conn)
	if err != nil {
		return err
	}
	plan, err := adopt.NewPlan(inv, options)
	if err != nil {
		return err
	}
	if !cfg.Check.Off() {
		return checkAdopted(ctx, cfg, plan, conn, stdout, stderr)
	}
	text := plan.Config()
	switch cfg.Print {
	case config.AdoptGrants:
		text = strings.Join(plan.Grants(), ";\n") + ";\n"
	case config.AdoptReport:
		text = plan.Report()
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return err
	}
	var lost []string
	for _, l := range plan.Left() {
		if !l.Broken {
			lost = append(lost, l.Name)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("adopt: containers that the plugin may have served are left out, as the report says: %q", lost)
	}
	return nil
}

// takeInventory reads what there is. conn is nil without a server.
func takeInventory(ctx context.Context, cfg *config.Adopt, conn *sqltext.Conn) (inv *adopt.Inventory, err error) {
	if cfg.Dump == "" {
		inv, err = adopt.ReadServer(ctx, conn, fmt.Sprintf("the %s server %s", conn.Flavor(), conn.ServerVersion()), conn.Flavor(), conn.ServerVersion())
	} else {
		inv, err = readDump(cfg.Dump)
		if err == nil && conn != nil {
			err = inv.ReadDefinitions(ctx, conn, conn.Flavor())
		}
	}
	if err != nil || cfg.Variables == "" {
		return inv, err
	}
	f, err := os.Open(cfg.Variables)
	if err != nil {
		return nil, fmt.Errorf("--variables: %w", err)
	}
	defer f.Close()
	if err := inv.Variables.Read(f, cfg.Variables); err != nil {
		return nil, fmt.Errorf("--variables: %w", err)
	}
	return inv, nil
}

func readDump(path string) (*adopt.Inventory, error) {
	if path == "-" {
		return adopt.ReadDump(os.Stdin, "standard input")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--dump: %w", err)
	}
	defer f.Close()
	return adopt.ReadDump(f, path)
}

// clientHost is the host that the server sees the cache come from, when it runs where this program does.
func clientHost(source *sqltext.Config) string {
	if source.Network == "unix" {
		return "localhost"
	}
	host, _, err := net.SplitHostPort(source.Address)
	if err != nil {
		host = source.Address
	}
	if host == "localhost" {
		return host
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return host
	}
	return "%"
}

// errAnswersDiffer ends adopt --check with code 1; the differences have been printed.
var errAnswersDiffer = errors.New("adopt: the answers differ")

// checkAdopted compares the answers of the plugin's port with those of a running serve, and prints what came of it.
func checkAdopted(ctx context.Context, cfg *config.Adopt, plan *adopt.Plan, conn *sqltext.Conn, stdout, stderr io.Writer) error {
	var bar *progress.Bar
	title, last := "", int64(0)
	end := func() {
		if bar != nil {
			bar.Done(last)
			bar = nil
		}
	}
	all, err := plan.Check(ctx, conn, adopt.CheckOptions{
		Old: [2]string{cfg.Check.Network, cfg.Check.Address}, New: [2]string{cfg.Memcached.Network, cfg.Memcached.Address}, Sample: cfg.Sample,
		Progress: func(container string, done, total int64) {
			if bar == nil || title != container {
				end()
				bar, title = progress.New(stderr, container, total), container
			}
			bar.Set(done)
			last = done
		},
	})
	end()
	different := false
	var out strings.Builder
	for _, c := range all {
		fmt.Fprintf(&out, "container %q: ", c.Container)
		if c.Skipped != "" {
			fmt.Fprintf(&out, "not compared: %s\n", c.Skipped)
			continue
		}
		fmt.Fprintf(&out, "%d keys read, %d differ", c.Read, c.Different)
		if c.Padded > 0 {
			fmt.Fprintf(&out, ", %d are alike but for the blanks that the plugin fills CHAR up with", c.Padded)
		}
		if c.Unaskable > 0 {
			fmt.Fprintf(&out, "; %d more cannot stand in a request", c.Unaskable)
		}
		out.WriteString("\n")
		for _, e := range c.Examples {
			fmt.Fprintf(&out, "   %s\n", e)
		}
		different = different || c.Different > 0
	}
	if _, printErr := io.WriteString(stdout, out.String()); err == nil {
		err = printErr
	}
	if err == nil && different {
		err = errAnswersDiffer
	}
	return err
}
