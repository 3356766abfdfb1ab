package admin

// Reporter tells how the process is. Both methods are called by several goroutines at a time and must not wait for
// anything slow: a dashboard asks every second, and monitoring must get an answer when all else hangs.
type Reporter interface {
	// Status is the state of everything. The result belongs to the caller.
	Status() Status
	// NotReady returns why the process should not get traffic, each reason one line for people; none means ready.
	NotReady() []string
}

// Status is the answer of /api/v1/status.
type Status struct {
	Version string `json:"version"`
	// UptimeS is in seconds.
	UptimeS int64         `json:"uptime_s"`
	Source  SourceStatus  `json:"source"`
	Applied Position      `json:"applied"`
	Lag     Lag           `json:"lag"`
	Tables  []TableStatus `json:"tables"`
	Reads   Reads         `json:"reads"`
	Writes  Writes        `json:"writes"`
	Memory  Memory        `json:"memory"`
	// Verification is what comparing cache and database has come to.
	Verification VerificationStatus `json:"verification"`
	// Items are the memcached items that are in no table; nil when there can be none.
	Items *ItemsStatus `json:"items,omitempty"`
}

// SourceStatus describes the server that is followed.
type SourceStatus struct {
	// Flavor is "mysql" or "mariadb", empty before the first connection.
	Flavor  string `json:"flavor"`
	Version string `json:"version"`
	// Address is host:port or the socket's path.
	Address string `json:"address"`
	// Connected tells whether the binlog is being received.
	Connected bool `json:"connected"`
	// Trouble is why it is not being received; empty while it is.
	Trouble string `json:"trouble,omitempty"`
	// Tried is the candidate that is tried at present; empty while one is followed.
	Tried string `json:"tried,omitempty"`
	// Candidates are all addresses in the order of the configuration.
	Candidates []string `json:"candidates"`
	// Failovers counts the turns from one candidate to another.
	Failovers uint64 `json:"failovers"`
}

// Position is how far the binlog has been applied.
type Position struct {
	// GTID is the set of applied transactions in the server's own notation; it compares with its executed set.
	GTID string `json:"gtid"`
	File string `json:"file"`
	Pos  uint64 `json:"pos"`
	// Seq counts applied transactions.
	Seq uint64 `json:"seq"`
}

// Lag is how old the cache may be. A nil age is one that is not known (yet).
type Lag struct {
	// EventAgeMS is the age of the last applied transaction when it was applied.
	EventAgeMS *int64 `json:"event_age_ms"`
	// HeartbeatAgeMS is the time since the source was heard of last.
	HeartbeatAgeMS *int64 `json:"heartbeat_age_ms"`
	// BehindMS is how old the picture of the source is at most: the time since everything was applied that it had then.
	BehindMS *int64 `json:"behind_ms"`
	// Stale tells that memory does not answer, because it is older than --max-staleness.
	Stale bool `json:"stale"`
}

// TableStatus describes one table.
type TableStatus struct {
	// Name is schema.table.
	Name string `json:"name"`
	// Mode is "full" or "hot".
	Mode string `json:"mode"`
	// State is pass, loading, live, hot, suspended or refused; Reason says why, where it is not live.
	State  string `json:"state"`
	Reason string `json:"reason"`
	// Rows is the number of rows in memory; of a hot table it is an estimate and may count some that are gone.
	Rows int64 `json:"rows"`
	// IndexBytes and RowBytes are memory; 0 for hot tables, whose rows share one store.
	IndexBytes int64 `json:"index_bytes"`
	RowBytes   int64 `json:"row_bytes"`
	// SnapshotDoneRows and SnapshotTotalRows tell how far loading is; the total is the server's estimate.
	SnapshotDoneRows  uint64 `json:"snapshot_done_rows"`
	SnapshotTotalRows uint64 `json:"snapshot_total_rows"`
}

// Reads counts the reads since the start.
type Reads struct {
	HandlerSocket ReadCounts `json:"handlersocket"`
	Memcached     ReadCounts `json:"memcached"`
}

// ReadCounts are the reads of one protocol by who answered them.
type ReadCounts struct {
	Memory   uint64 `json:"memory"`
	Database uint64 `json:"database"`
}

// ItemsStatus describes the memcached items that are in no table; all but Items and Evictions are bytes.
type ItemsStatus struct {
	// Items are in memory; Bytes is what they take alone.
	Items int64 `json:"items"`
	Bytes int64 `json:"bytes"`
	// Used is all their memory, a part of Memory.Used; Limit is their part of Memory.Limit.
	Used  int64 `json:"used"`
	Limit int64 `json:"limit"`
	// Evictions counts items that had to go before their time.
	Evictions uint64 `json:"evictions"`
}

// Writes counts the writes since the start.
type Writes struct {
	Done uint64 `json:"done"`
	// Refused are those that the database refused, Failed all others of which nothing was done.
	Refused uint64 `json:"refused"`
	Failed  uint64 `json:"failed"`
	// Uncertain are those whose commit was lost sight of.
	Uncertain uint64 `json:"uncertain"`
	// AckTimeouts are commits that were answered before they were applied.
	AckTimeouts uint64 `json:"ack_timeouts"`
	// FencedTables are tables that the database answers for at present because of that.
	FencedTables int `json:"fenced_tables"`
}

// Memory is the budget, in bytes.
type Memory struct {
	Limit int64 `json:"limit"`
	Used  int64 `json:"used"`
}
