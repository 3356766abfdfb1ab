package mcserver

import "math"

// token takes the first token of a line, and gives what stands behind it. Tokens are parted by blanks alone. An empty
// token is the line's end.
func token(line []byte) (tok, rest []byte) {
	i := 0
	for i < len(line) && line[i] == ' ' {
		i++
	}
	j := i
	for j < len(line) && line[j] != ' ' {
		j++
	}
	return line[i:j], line[j:]
}

// lastToken returns the last token of a line; empty when there is none.
func lastToken(line []byte) []byte {
	j := len(line)
	for j > 0 && line[j-1] == ' ' {
		j--
	}
	i := j
	for i > 0 && line[i-1] != ' ' {
		i--
	}
	return line[i:j]
}

// isNoreply tells whether a line ends with the token noreply.
func isNoreply(rest []byte) bool { return string(lastToken(rest)) == "noreply" }

// parseUint reads an unsigned decimal number that fills b.
func parseUint(b []byte) (uint64, bool) {
	if len(b) == 0 {
		return 0, false
	}
	var n uint64
	for _, c := range b {
		d := uint64(c - '0')
		if c < '0' || c > '9' || n > (math.MaxUint64-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// parseInt32 reads a decimal number that fills b. Times of the protocols have 32 bits: as in memcached, a number beyond
// them is taken, and is a time that is over; here each is, there one that wraps.
func parseInt32(b []byte) (int32, bool) {
	negative := len(b) > 0 && b[0] == '-'
	if negative {
		b = b[1:]
	}
	n, ok := parseUint(b)
	switch {
	case !ok || n > math.MaxInt64:
		return 0, false
	case n > math.MaxInt32:
		return -1, true
	case negative:
		return -int32(n), true
	}
	return int32(n), true
}

// parseExptime is parseInt32 for the times of requests.
func parseExptime(b []byte) (int64, bool) {
	n, ok := parseInt32(b)
	return int64(n), ok
}

// textCommand finds the command that a line begins with.
func textCommand(name []byte) command {
	// The compiler makes this a search by length and bytes, without a copy of name.
	switch string(name) {
	case "get":
		return cmdGet
	case "gets":
		return cmdGets
	case "mg":
		return cmdMetaGet
	case "me":
		return cmdMetaDebug
	case "mn":
		return cmdMetaNoop
	case "gat":
		return cmdGAT
	case "gats":
		return cmdGATS
	case "touch":
		return cmdTouch
	case "set":
		return cmdSet
	case "add":
		return cmdAdd
	case "replace":
		return cmdReplace
	case "append":
		return cmdAppend
	case "prepend":
		return cmdPrepend
	case "cas":
		return cmdCAS
	case "incr":
		return cmdIncr
	case "decr":
		return cmdDecr
	case "delete":
		return cmdDelete
	case "flush_all":
		return cmdFlushAll
	case "ms":
		return cmdMetaSet
	case "md":
		return cmdMetaDelete
	case "ma":
		return cmdMetaArithmetic
	case "bind":
		return cmdBind
	case "stats":
		return cmdStats
	case "version":
		return cmdVersion
	case "verbosity":
		return cmdVerbosity
	case "quit":
		return cmdQuit
	case "shutdown":
		return cmdShutdown
	case "cache_memlimit":
		return cmdMemoryLimit
	case "slabs", "lru", "lru_crawler":
		return cmdTune
	case "watch":
		return cmdWatch
	}
	return cmdUnknown
}

// The error lines of the text protocol, without their line ends.
const (
	errLine            = "ERROR"
	errBadFormat       = "CLIENT_ERROR bad command line format"
	errBadChunk        = "CLIENT_ERROR bad data chunk"
	errBadExptime      = "CLIENT_ERROR invalid exptime argument"
	errBadDelta        = "CLIENT_ERROR invalid numeric delta argument"
	errDeleteUsage     = "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]"
	errTooLarge        = "SERVER_ERROR object too large for cache"
	errMetaTooMany     = "CLIENT_ERROR options flags are too long"
	errMetaDuplicate   = "CLIENT_ERROR duplicate flag"
	errMetaInvalid     = "CLIENT_ERROR invalid flag"
	errMetaEither      = "CLIENT_ERROR invalid or duplicate flag"
	errMetaToken       = "CLIENT_ERROR bad token in command line format"
	errMetaKey         = "CLIENT_ERROR error decoding key"
	errMetaOpaque      = "CLIENT_ERROR opaque token too long"
	errMetaSetMode     = "CLIENT_ERROR invalid mode for ms M token"
	errMetaArithMode   = "CLIENT_ERROR invalid mode for ma M token"
	errNoWriting       = "SERVER_ERROR no writing through this server"
	errFlushTable      = "SERVER_ERROR flush_all of a table is not allowed"
	errNoTouch         = "SERVER_ERROR the policy for set keeps rows from being touched"
	errNoVivify        = "SERVER_ERROR a read makes no row"
	errFlushDelay      = "SERVER_ERROR flush_all of a table can't be delayed"
	errStale           = "SERVER_ERROR rows can't be marked as stale"
	errNoMemory        = "SERVER_ERROR out of memory storing object"
	errNotNumber       = "CLIENT_ERROR cannot increment or decrement non-numeric value"
	errLimitTooSmall   = "MEMLIMIT_TOO_SMALL cannot set maxbytes to less than 8m"
	errLimitBounds     = "MEMLIMIT_ADJUST_FAILED out of bounds unable to adjust maxbytes"
	errNoDump          = "ERROR metadump not allowed"
	errNoWatch         = "ERROR watch commands not allowed"
	errSlabClass       = "BADCLASS invalid src or dst class id"
	errUnauthenticated = "CLIENT_ERROR unauthenticated"
	errAuthFailed      = "CLIENT_ERROR authentication failure"
	errShutdown        = "SERVER_ERROR: shutdown not enabled"
	errNoCachedump     = "CLIENT_ERROR stats cachedump not allowed"
	errNotStarted      = "SERVER_ERROR containers are not loaded yet"
	errRangeKey        = "SERVER_ERROR a key of the range can not be sent"
	errRangeTooLong    = "SERVER_ERROR answer of the range is too long"
	errRangeUnordered  = "SERVER_ERROR range with two ends is not supported for this key"
	errRangeDescending = "SERVER_ERROR range is not supported over a descending index"
)
