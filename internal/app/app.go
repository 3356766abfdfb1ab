// Package app puts the parts together and runs them: it is the only package that knows all others.
package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"strings"

	"github.com/binlogcache/binlogcache/internal/config"
)

// Run runs a command and returns the exit code: 0, or 1 after one line on stderr that says what is wrong.
func Run(ctx context.Context, cmd config.Command, stdout, stderr io.Writer) int {
	var err error
	switch cmd := cmd.(type) {
	case *config.Serve:
		err = serve(ctx, cmd, stderr)
	case *config.Doctor:
		err = doctor(ctx, cmd, stdout)
	case *config.Verify:
		err = askVerify(ctx, cmd, stdout, stderr)
	case *config.Explain:
		err = askExplain(ctx, cmd, stdout)
	case *config.Demo:
		err = runDemo(ctx, cmd, stdout)
	case *config.Bench:
		err = bench(ctx, cmd, stdout)
	case *config.Triggers:
		err = runTriggers(ctx, cmd, stdout, stderr)
	case *config.Adopt:
		err = runAdopt(ctx, cmd, stdout, stderr)
	case *config.Version:
		_, err = fmt.Fprintln(stdout, "binlogcache", Version())
	case *config.Help:
		_, err = io.WriteString(stdout, cmd.Text)
	default:
		err = fmt.Errorf("no such command: %s", cmd.Name())
	}
	if err == nil || errors.Is(err, context.Canceled) && ctx.Err() != nil {
		return 0
	}
	// Several faults are several lines; the cause of each stays on its own line.
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(stderr, "binlogcache:", line)
	}
	return 1
}

// printJSON writes a command's result for programs.
func printJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// Version is the module's version as it was built: a tag, or the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

// newLogger makes the daemon's logger.
func newLogger(w io.Writer, level slog.Level, format string) *slog.Logger {
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		// Some libraries' errors write their stack where a handler asks for more than the text.
		if err, ok := a.Value.Any().(error); ok {
			a.Value = slog.StringValue(err.Error())
		}
		return a
	}}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
