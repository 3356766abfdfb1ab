package netserver

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"time"
)

// Engine says how connections are driven.
type Engine uint8

// The engines. EngineDefault is EngineEpoll on Linux and EngineGoroutine elsewhere.
const (
	EngineDefault   Engine = iota
	EngineEpoll            // a few loops over raw non-blocking sockets; Linux only
	EngineGoroutine        // one goroutine for each connection
)

func (e Engine) String() string {
	switch e {
	case EngineEpoll:
		return "epoll"
	case EngineGoroutine:
		return "goroutine"
	default:
		return "default"
	}
}

// Config describes a Server. Only Listen and Protocol are required; New fills in the rest.
type Config struct {
	// Name tells servers apart in log lines, such as "handlersocket-read".
	Name string
	// Listen is "host:port", or "unix:/path" for a Unix socket.
	Listen string
	// Option is the option that Listen came from, for error messages, such as "--handlersocket-read".
	Option   string
	Protocol Protocol
	// Logger gets what an operator has to know; nil discards it.
	Logger *slog.Logger
	Engine Engine
	// Loops is the number of epoll loops. 0 is half of GOMAXPROCS, at least 1 and at most 4: a loop keeps its
	// processor busy under full load, and the follower of the binlog needs one too.
	Loops int
	// Workers bounds the parked jobs that run at the same time; the others wait. 0 is 256: jobs wait for the
	// database most of their time, and the database has a bound of its own.
	Workers int
	// MaxConns bounds the connections; one more is sent Refusal and closed. 0 is 10,000.
	MaxConns int
	Refusal  []byte
	// MaxInput bounds the kept bytes of an incomplete request, for sessions that don't set their own limit. 0 is
	// 1 MiB.
	MaxInput int
	// MaxOutput bounds the answers that wait for a client that does not take them: beyond it nothing more is read from
	// that client. 0 is 4 MiB. Clients that write a whole pipeline before they read anything need it to be large, memory
	// needs it to be small.
	MaxOutput int
	// MaxWaiting bounds the memory of all connections' incomplete requests and answers that were not taken, together.
	// Beyond it those are closed that hold most (of a loop; the goroutine engine closes the one that grows). Each may hold
	// 64 KiB freely, and one alone what its own limits allow. 0 is 256 MiB.
	MaxWaiting int64
	// IdleTimeout closes a connection on which nothing has arrived for that long. 0 never does.
	IdleTimeout time.Duration
	// WriteTimeout closes a connection that has taken nothing of a waiting answer for that long. 0 is 30 s.
	WriteTimeout time.Duration
	// SocketMode is the mode of a Unix socket; 0 is 0660.
	SocketMode fs.FileMode
}

const (
	// readSize is the size of one read: large enough that a deep pipeline needs few calls, small enough that one
	// connection can't keep a loop for long.
	readSize = 64 << 10
	// outputLimit is Conn.OutputLimit. A write of that size costs about as much in copying as in the call, so more
	// would gain nothing.
	outputLimit = 256 << 10
	// maxKeptOutput is the largest output buffer that a loop or a connection keeps for its next answers.
	maxKeptOutput = 1 << 20
	// lingerTime is how long a closed connection may go on sending before it is cut: closing with unread input resets
	// the connection, and the reset can overtake the last answer.
	lingerTime = time.Second
	// defaultSocketMode lets the owner and the group connect.
	defaultSocketMode = 0o660
	// drainReads bounds the reads of one connection during Shutdown, so that a client that never stops sending does
	// not hold it up.
	drainReads = 16
)

func (c Config) withDefaults() (Config, error) {
	if c.Listen == "" {
		return c, errors.New("listen address is empty")
	}
	if c.Protocol == nil {
		return c, errors.New("no protocol given")
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Name != "" {
		c.Logger = c.Logger.With("server", c.Name)
	}
	switch c.Engine {
	case EngineDefault:
		c.Engine = EngineGoroutine
		if epollSupported {
			c.Engine = EngineEpoll
		}
	case EngineEpoll:
		if !epollSupported {
			return c, fmt.Errorf("the epoll engine does not exist on %s", runtime.GOOS)
		}
	case EngineGoroutine:
	default:
		return c, fmt.Errorf("unknown engine %d", c.Engine)
	}
	if c.Loops <= 0 {
		c.Loops = min(max(runtime.GOMAXPROCS(0)/2, 1), 4)
	}
	setDefault(&c.Workers, 256)
	setDefault(&c.MaxConns, 10_000)
	setDefault(&c.MaxInput, 1<<20)
	setDefault(&c.MaxOutput, 4<<20)
	setDefault(&c.MaxWaiting, 256<<20)
	setDefault(&c.WriteTimeout, 30*time.Second)
	if c.SocketMode == 0 {
		c.SocketMode = defaultSocketMode
	}
	return c, nil
}

func setDefault[T ~int | ~int64](v *T, def T) {
	if *v <= 0 {
		*v = def
	}
}
