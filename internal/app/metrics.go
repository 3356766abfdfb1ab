package app

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/binlogcache/binlogcache/cache"
)

// collector turns the counters of the parts into metrics at each scrape.
type collector struct{ d *daemon }

func newCollector(d *daemon) prometheus.Collector { return collector{d} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("binlogcache_"+name, help, labels, nil)
}

var (
	descConns        = desc("connections", "Open client connections.", "listener")
	descAccepted     = desc("connections_accepted_total", "Accepted client connections, those over the limit included.", "listener")
	descAcceptErrors = desc("accept_errors_total", "Failures to accept a connection.", "listener")
	descClosed       = desc("connections_closed_total", "Ended client connections by cause.", "listener", "cause")
	descBytesIn      = desc("received_bytes_total", "Bytes read from clients.", "listener")
	descBytesOut     = desc("sent_bytes_total", "Bytes written to clients.", "listener")
	descParked       = desc("parked_requests_total", "Requests that waited for a worker, for the database or because they were long.", "listener")
	descWaiting      = desc("waiting_bytes", "Memory of requests that are not complete and of answers that were not taken, without 64 KiB that each connection may hold.", "listener")
	descParking      = desc("parked_requests", "Requests that wait at present.", "listener")
	descPanics       = desc("panics_total", "Recovered panics; each closed one connection.", "listener")
	descHSRequests   = desc("handlersocket_requests_total", "HandlerSocket requests by kind, failed ones included.", "listener", "kind")
	descHSFailures   = desc("handlersocket_failures_total", "HandlerSocket answers that are errors.", "listener")
	descHSDenied     = desc("handlersocket_unauthorized_total", "HandlerSocket requests without the right to make them, and wrong secrets.", "listener")
	descHSLimits     = desc("handlersocket_limits_total", "HandlerSocket requests that went beyond a bound; see docs/PROTOCOLS.md.", "listener", "limit")
	descCommands     = desc("memcached_commands_total", "memcached commands by result; reads count once for each key.", "command", "result")
	descItems        = desc("items", "memcached items that are in no table.")
	descItemBytes    = desc("items_bytes", "What these items take alone.")
	descItemsUsed    = desc("items_memory_used_bytes", "Memory of these items with all that belongs to them, a part of the memory used.")
	descItemsLimit   = desc("items_memory_limit_bytes", "Bound of that.")
	descItemsStored  = desc("items_stored_total", "Items that were stored.")
	descItemsEvicted = desc("items_evicted_total", "Items that had to go before their time.")
	descItemsExpired = desc("items_expired_total", "Items whose memory was used again after their time was over.")
	descErrors       = desc("read_errors_total", "Reads that neither memory nor database could answer.", "protocol")
	descReconnects   = desc("source_disconnects_total", "Ended connections to the source, failed tries included, by reason.", "reason")
	descFollowed     = desc("source_followed", "1 for the candidate that is followed, or was followed last; 0 for the others.", "address")
	descFailovers    = desc("source_failovers_total", "Turns from one candidate to another.")
	descChanges      = desc("applied_row_changes_total", "Row changes of followed tables that have been applied.")
	descLoads        = desc("table_loads_total", "Loads of tables by how they ended.", "result")
	descTransitions  = desc("table_transitions_total", "Changes of table states, by the new state.", "state")
	descBehind       = desc("lag_behind_seconds", "How old the picture of the source is at most.")
	descStale        = desc("stale", "1 while memory does not answer, because it is older than --max-staleness.")
	descStalePeriods = desc("stale_periods_total", "How often memory became older than --max-staleness.")
	descHotReads     = desc("hot_reads_total", "Reads of hot tables by whole keys: hit in memory, SELECT, or shared with another's SELECT.", "result")
	descHotPublished = desc("hot_rows_published_total", "Rows of hot tables that were kept after they were read.")
	descHotDropped   = desc("hot_rows_dropped_total", "Rows of hot tables that were read and not kept, by reason.", "reason")
	descHotEvicted   = desc("hot_rows_evicted_total", "Rows of hot tables that left memory to make room.")
	descHotBytes     = desc("hot_bytes", "Memory that rows of hot tables take.")
	descHotLimit     = desc("hot_limit_bytes", "Memory set aside for rows of hot tables; 0 before the first.")
	descImages       = desc("state_images_total", "Images of the cache for a warm restart, by how their writing ended.", "result")
	descLastImage    = desc("state_last_image_timestamp_seconds", "When the last of them was written.")
	descDefinitions  = desc("definition_loads_total", "Definitions of tables that were read from the source for clients.")
)

// Describe implements prometheus.Collector.
func (collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descConns, descAccepted, descAcceptErrors, descClosed, descBytesIn, descBytesOut, descParked, descParking, descWaiting, descPanics,
		descHSRequests, descHSFailures, descHSDenied, descHSLimits, descCommands, descErrors, descReconnects, descFollowed, descFailovers, descChanges, descLoads, descTransitions, descBehind, descStale, descStalePeriods, descDefinitions,
		descHotReads, descHotPublished, descHotDropped, descHotEvicted, descHotBytes, descHotLimit,
		descImages, descLastImage,
		descItems, descItemBytes, descItemsUsed, descItemsLimit, descItemsStored, descItemsEvicted, descItemsExpired,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	for _, l := range c.d.listeners {
		st := l.server.Stats()
		gauge(descConns, float64(st.Open), l.name)
		counter(descAccepted, st.Accepted, l.name)
		counter(descAcceptErrors, st.AcceptErrors, l.name)
		for cause, n := range st.Closed {
			counter(descClosed, n, l.name, cause)
		}
		counter(descBytesIn, st.BytesIn, l.name)
		counter(descBytesOut, st.BytesOut, l.name)
		counter(descParked, st.Parked, l.name)
		gauge(descWaiting, float64(st.Waiting), l.name)
		gauge(descParking, float64(st.Parking), l.name)
		counter(descPanics, st.Panics, l.name)
		if l.hs == nil {
			continue
		}
		hs := l.hs.Stats()
		for kind, n := range map[string]uint64{"open": hs.Opens, "find": hs.Finds, "write": hs.Writes, "auth": hs.Auths} {
			counter(descHSRequests, n, l.name, kind)
		}
		counter(descHSFailures, hs.Failures, l.name)
		counter(descHSDenied, hs.Unauthorized, l.name)
		for limit, n := range hs.Limits {
			counter(descHSLimits, n, l.name, limit)
		}
	}
	for _, n := range c.d.memcached.Counts() {
		counter(descCommands, n.N, n.Command, n.Result)
	}
	if c.d.items != nil {
		it := c.d.items.Stats()
		gauge(descItems, float64(it.Items))
		gauge(descItemBytes, float64(it.Bytes))
		gauge(descItemsUsed, float64(it.Used))
		gauge(descItemsLimit, float64(it.Limit))
		counter(descItemsStored, it.Total)
		counter(descItemsEvicted, it.Evictions)
		counter(descItemsExpired, it.Reclaimed)
	}
	counter(descErrors, c.d.hsReads.Counts().Errors, "handlersocket")
	counter(descErrors, c.d.mcReads.Counts().Errors, "memcached")
	f := c.d.follower.Status()
	for reason, n := range f.Reconnects {
		counter(descReconnects, n, string(reason))
	}
	for i, address := range f.Candidates {
		if slices.Contains(f.Candidates[:i], address) {
			continue
		}
		followed := 0.0
		if address == f.Address && f.Flavor != "" {
			followed = 1
		}
		gauge(descFollowed, followed, address)
	}
	counter(descFailovers, f.Failovers)
	counter(descChanges, f.Changes)
	counter(descLoads, f.Loads, "live")
	counter(descLoads, f.LoadFailures, "failed")
	counter(descLoads, f.LoadsCutOff, "overtaken")
	for s := cache.StatePass; s <= cache.StateRefused; s++ {
		counter(descTransitions, c.d.store.Transitions(s), s.String())
	}
	if f.Behind != 0 {
		gauge(descBehind, f.Behind.Seconds())
	}
	stale := 0.0
	if c.d.fresh.stale.Load() {
		stale = 1
	}
	gauge(descStale, stale)
	counter(descStalePeriods, c.d.fresh.periods.Load())
	counter(descDefinitions, c.d.router.Loads())
	hot := c.d.store.HotCounts()
	counter(descHotReads, hot.Hits, "memory")
	counter(descHotReads, hot.Reads, "database")
	counter(descHotReads, hot.Shared, "shared")
	counter(descHotPublished, hot.Published)
	for reason, n := range hot.Dropped {
		counter(descHotDropped, n, reason)
	}
	counter(descHotEvicted, hot.Evicted)
	gauge(descHotBytes, float64(hot.Bytes))
	gauge(descHotLimit, float64(hot.Limit))
	if k := c.d.keeper; k != nil {
		counter(descImages, k.saved.Load(), "saved")
		counter(descImages, k.failed.Load(), "failed")
		if at := k.lastAt.Load(); at != 0 {
			gauge(descLastImage, float64(at))
		}
	}
}
