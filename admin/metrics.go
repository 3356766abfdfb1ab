package admin

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// collector turns the status into metrics at each scrape, so that both always tell the same.
type collector struct{ reporter Reporter }

// NewCollector returns the metrics of the status: binlogcache_table_rows and so on.
func NewCollector(r Reporter) prometheus.Collector { return collector{r} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("binlogcache_"+name, help, labels, nil)
}

var (
	descBuild     = desc("build_info", "The running version; always 1.", "version")
	descUptime    = desc("uptime_seconds", "Time since the start.")
	descReady     = desc("ready", "1 when /readyz says ready.")
	descConnected = desc("source_connected", "1 when the binlog is being received.", "flavor")
	descSeq       = desc("applied_transactions_total", "Transactions of the binlog that have been applied.")
	descEvent     = desc("lag_event_age_seconds", "Age of the last applied transaction when it was applied.")
	descHeartbeat = desc("lag_heartbeat_age_seconds", "Time since the source was heard of last.")
	descState     = desc("table_state", "1 for the state that the table is in.", "table", "mode", "state")
	descRows      = desc("table_rows", "Rows in memory.", "table")
	descRowBytes  = desc("table_row_bytes", "Memory of the table's rows.", "table")
	descIdxBytes  = desc("table_index_bytes", "Memory of the table's indexes.", "table")
	descSnapDone  = desc("table_snapshot_done_rows", "Rows that the snapshot has read.", "table")
	descSnapTotal = desc("table_snapshot_total_rows", "Rows that the snapshot will read, as the server estimates.", "table")
	descReads     = desc("reads_total", "Reads by protocol and by who answered.", "protocol", "answered_by")
	descLimit     = desc("memory_limit_bytes", "Budget of everything cached.")
	descUsed      = desc("memory_used_bytes", "Memory of everything cached.")
	descVerified  = desc("verified_rows_total", "Rows of the cache that have been compared with the database.")
	descDiffer    = desc("verify_differences_total", "Rows that were found otherwise than in the database, by kind.", "kind")
	descMended    = desc("verify_mended_total", "Rows that were found otherwise than in the database, and mended.")
	descPasses    = desc("verify_passes_total", "Comparisons of all live tables in the background that have ended.")
	descLastPass  = desc("verify_last_pass_timestamp_seconds", "When the last of them ended.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descBuild, descUptime, descReady, descConnected, descSeq, descEvent, descHeartbeat, descState, descRows,
		descRowBytes, descIdxBytes, descSnapDone, descSnapTotal, descReads, descLimit, descUsed,
		descVerified, descDiffer, descMended, descPasses, descLastPass,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	s := c.reporter.Status()
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	flag := func(on bool) float64 {
		if on {
			return 1
		}
		return 0
	}
	gauge(descBuild, 1, s.Version)
	gauge(descUptime, float64(s.UptimeS))
	gauge(descReady, flag(len(c.reporter.NotReady()) == 0))
	gauge(descConnected, flag(s.Source.Connected), s.Source.Flavor)
	counter(descSeq, s.Applied.Seq)
	age := func(d *prometheus.Desc, ms *int64) {
		if ms != nil {
			gauge(d, (time.Duration(*ms) * time.Millisecond).Seconds())
		}
	}
	age(descEvent, s.Lag.EventAgeMS)
	age(descHeartbeat, s.Lag.HeartbeatAgeMS)
	for _, t := range s.Tables {
		gauge(descState, 1, t.Name, t.Mode, t.State)
		gauge(descRows, float64(t.Rows), t.Name)
		gauge(descRowBytes, float64(t.RowBytes), t.Name)
		gauge(descIdxBytes, float64(t.IndexBytes), t.Name)
		gauge(descSnapDone, float64(t.SnapshotDoneRows), t.Name)
		gauge(descSnapTotal, float64(t.SnapshotTotalRows), t.Name)
	}
	for _, p := range []struct {
		name  string
		reads ReadCounts
	}{{"handlersocket", s.Reads.HandlerSocket}, {"memcached", s.Reads.Memcached}} {
		counter(descReads, p.reads.Memory, p.name, "memory")
		counter(descReads, p.reads.Database, p.name, "database")
	}
	gauge(descLimit, float64(s.Memory.Limit))
	gauge(descUsed, float64(s.Memory.Used))
	counter(descVerified, s.Verification.Rows)
	for kind, n := range s.Verification.Differences {
		counter(descDiffer, n, kind)
	}
	counter(descMended, s.Verification.Mended)
	counter(descPasses, s.Verification.Passes)
	if at := s.Verification.LastPass; at != nil {
		gauge(descLastPass, float64(at.Unix()))
	}
}
