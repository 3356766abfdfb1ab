package app

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/binlogcache/binlogcache/internal/config"
	"github.com/binlogcache/binlogcache/internal/loadgen"
)

// bench loads one endpoint and prints a table of one line.
func bench(ctx context.Context, b *config.Bench, stdout io.Writer) error {
	r, err := loadgen.Run(ctx, loadgen.Load{
		Protocol: b.Protocol, Address: b.Address.Reveal(), Conns: b.Conns, Depth: b.Depth, Keys: b.Keys, Duration: b.Duration,
		Schema: b.Schema, Table: b.Table, Index: b.Index, KeyColumn: b.KeyColumn, Columns: b.Columns, KeyFormat: b.KeyFormat, PID: b.PID,
	})
	if err != nil {
		return err
	}
	cpu := "-"
	if b.PID != 0 {
		cpu = fmt.Sprintf("%.2f", float64(r.CPUPerOp())/float64(time.Microsecond))
	}
	us := func(d time.Duration) int64 { return d.Microseconds() }
	_, err = fmt.Fprintf(stdout, "%8s %6s %6s %12s %10s %9s %9s %9s %9s %14s\n%8s %6d %6d %12.0f %10d %9d %9d %9d %9d %14s\n",
		"protocol", "conns", "depth", "reads/s", "not found", "p50 µs", "p95 µs", "p99 µs", "max µs", "CPU µs a read",
		b.Protocol, r.Load.Conns, r.Load.Depth, r.OpsPerSecond(), r.Misses, us(r.P50), us(r.P95), us(r.P99), us(r.Max), cpu)
	return err
}
