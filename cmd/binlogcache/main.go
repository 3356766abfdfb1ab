// The command binlogcache keeps tables of MySQL or MariaDB in memory and answers HandlerSocket and memcached clients
// from there.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/binlogcache/binlogcache/internal/app"
	"github.com/binlogcache/binlogcache/internal/config"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal asks for an orderly end; with the handler gone, a second one ends the process at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run does what the arguments ask for and returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd, err := config.Parse(args, os.LookupEnv)
	if err != nil {
		fmt.Fprintln(stderr, "binlogcache:", err)
		return config.ExitUsage
	}
	if _, serves := cmd.(*config.Serve); !serves { // that one reads its containers again
		var stop context.CancelFunc
		ctx, stop = signal.NotifyContext(ctx, syscall.SIGHUP)
		defer stop()
	}
	return app.Run(ctx, cmd, stdout, stderr)
}
