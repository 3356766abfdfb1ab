package mcserver

import "sync/atomic"

// command is a command of one of the protocols, as far as they are counted apart. The commands of the text and of the
// binary protocol that do the same count together.
type command uint8

const (
	cmdUnknown command = iota
	cmdGet
	cmdGets
	cmdMetaGet
	cmdMetaDebug
	cmdMetaNoop
	cmdGAT
	cmdGATS
	cmdTouch
	cmdSet
	cmdAdd
	cmdReplace
	cmdAppend
	cmdPrepend
	cmdCAS
	cmdIncr
	cmdDecr
	cmdDelete
	cmdFlushAll
	cmdMetaSet
	cmdMetaDelete
	cmdMetaArithmetic
	cmdBind
	cmdStats
	cmdVersion
	cmdVerbosity
	cmdQuit
	cmdShutdown
	cmdMemoryLimit
	cmdTune
	cmdWatch
	cmdAuth
	numCommands
)

var commandNames = [numCommands]string{
	"unknown", "get", "gets", "mg", "me", "mn", "gat", "gats", "touch", "set", "add", "replace", "append", "prepend", "cas", "incr", "decr",
	"delete", "flush_all", "ms", "md", "ma", "bind", "stats", "version", "verbosity", "quit", "shutdown",
	"cache_memlimit", "tune", "watch", "auth",
}

// result is how a command ended. Reads of keys count once for each key.
type result uint8

const (
	resultOK result = iota
	resultHit
	resultMiss
	resultExpired     // a row whose time is over: a miss to the client
	resultClientError // the command was not understood
	resultServerError // the database or the container failed
	resultRefused     // a command that is known and not supported
	resultNotStored   // what is there, or is not, forbids it
	resultExists      // the cas is another one
	numResults
)

var resultNames = [numResults]string{"ok", "hit", "miss", "expired", "client_error", "server_error", "refused", "not_stored", "exists"}

// counterStripes spreads the counters over cache lines, so that the event loops do not share them.
const counterStripes = 16

type counterStripe struct {
	n [numCommands][numResults]atomic.Uint64
	_ [64]byte
}

// counters count commands by command and result.
type counters struct {
	stripes [counterStripes]counterStripe
	// base is what `stats reset` takes off; it does not touch what metrics see.
	base atomic.Pointer[[numCommands][numResults]uint64]
}

func (c *counters) stripe(id uint64) *counterStripe { return &c.stripes[id%counterStripes] }

func (s *counterStripe) add(cmd command, r result) { s.n[cmd][r].Add(1) }

func (c *counters) sum() (total [numCommands][numResults]uint64) {
	for i := range c.stripes {
		for cmd := range total {
			for r := range total[cmd] {
				total[cmd][r] += c.stripes[i].n[cmd][r].Load()
			}
		}
	}
	return total
}

// sinceReset is sum without what was counted before the last reset.
func (c *counters) sinceReset() [numCommands][numResults]uint64 {
	base := c.base.Load()
	total := c.sum()
	if base != nil {
		for cmd := range total {
			for r := range total[cmd] {
				total[cmd][r] -= base[cmd][r]
			}
		}
	}
	return total
}

func (c *counters) reset() {
	total := c.sum()
	c.base.Store(&total)
}

// Count is how often a command ended in one way, since the start. Reads count once for each key.
type Count struct {
	// Command is the command's name in the text protocol, or "unknown".
	Command string
	// Result is one of ok, hit, miss, expired, client_error, server_error, refused, not_stored, exists.
	Result string
	N      uint64
}

// Counts returns what has been counted, in a fixed order, zeros left out.
func (s *Server) Counts() []Count {
	total := s.counters.sum()
	var all []Count
	for cmd := range total {
		for r, n := range total[cmd] {
			if n > 0 {
				all = append(all, Count{Command: commandNames[cmd], Result: resultNames[r], N: n})
			}
		}
	}
	return all
}
