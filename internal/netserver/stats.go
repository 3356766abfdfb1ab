package netserver

import "sync/atomic"

// Cause says why a connection ended.
type Cause uint8

// The causes, in the order of Causes.
const (
	CauseClient    Cause = iota // the client closed it
	CauseSession                // the protocol asked for it (ErrClose)
	CauseProtocol               // the protocol gave up on it (another error)
	CauseNetwork                // a read or write failed
	CauseInput                  // an incomplete request went beyond the input limit
	CauseSlow                   // the client did not take its answers
	CauseIdle                   // nothing arrived for too long
	CauseConnLimit              // there were too many connections
	CausePanic                  // the session panicked
	CauseMemory                 // all connections together held too much, this one most
	CauseShutdown               // the server ended
	causeCount
)

var causeNames = [causeCount]string{
	"client", "session", "protocol", "network", "input_limit", "slow_client", "idle", "connection_limit", "panic", "memory", "shutdown",
}

func (c Cause) String() string { return causeNames[c] }

// Stats is a snapshot of a Server's counters. The counts are since the start.
type Stats struct {
	// Open is the number of connections at present, MaxConns their bound.
	Open, MaxConns int64
	// Loops is the number of epoll loops, which the goroutine engine does not have.
	Loops int
	// Accepted counts connections, those over the limit included.
	Accepted uint64
	// AcceptErrors counts failures to accept, such as running out of file descriptors.
	AcceptErrors uint64
	// Closed counts ended connections by Cause.String.
	Closed map[string]uint64
	// BytesIn and BytesOut are what was read from and written to clients.
	BytesIn, BytesOut uint64
	// Parked counts parked requests; Parking is the number of those that wait or run at present.
	Parked  uint64
	Parking int64
	// Waiting is the memory of requests that are not complete and of answers that were not taken, without what each
	// connection may hold freely; see Config.MaxWaiting.
	Waiting int64
	// Panics counts recovered panics of sessions and jobs.
	Panics uint64
}

type counters struct {
	open, parking, waiting        atomic.Int64
	accepted, acceptErrors        atomic.Uint64
	closed                        [causeCount]atomic.Uint64
	parked, panics                atomic.Uint64
	streamBytesIn, streamBytesOut atomic.Uint64 // of the goroutine engine; loops count by themselves
}

// loopCounters are written by one loop. The padding keeps two loops off one cache line.
type loopCounters struct {
	bytesIn, bytesOut atomic.Uint64
	_                 [112]byte
}
