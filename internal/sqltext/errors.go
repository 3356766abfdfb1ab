package sqltext

import (
	"errors"

	"github.com/go-mysql-org/go-mysql/mysql"
)

var (
	// ErrBroken is given by a Conn that was closed, aborted or lost: get another one. It counts as a connection error.
	ErrBroken = errors.New("connection is closed")
	// ErrUnsent marks errors of ExecAll before the server had the whole text: nothing of it was executed.
	ErrUnsent = errors.New("statement not sent")
	// ErrMalformed marks bytes from the server that are not what the protocol asks for. The Conn is broken afterwards.
	ErrMalformed = errors.New("malformed packet from the server")
	// ErrTooLarge is given by StreamMost for a row that is larger than wanted. The Conn is broken afterwards.
	ErrTooLarge = errors.New("a row is larger than wanted")
	// ErrPoolClosed is given by a Pool after Close.
	ErrPoolClosed = errors.New("connection pool is closed")
	// ErrOtherServer is what Config.Init gives for a connection that leads to another server than the one that is meant.
	ErrOtherServer = errors.New("the connection leads to another server than the one that is followed")
)

// connError is a failure of the connection rather than of a statement.
type connError struct {
	op  string
	err error
}

func (e *connError) Error() string { return e.op + ": " + e.err.Error() }
func (e *connError) Unwrap() error { return e.err }

// IsConnectionError reports that the server could not be reached, refused more connections, is going down, or that the
// connection was lost. The statement may have been executed; a later try may succeed. The end of the caller's
// context is not a connection error.
func IsConnectionError(err error) bool {
	if c := (*connError)(nil); errors.As(err, &c) {
		return true
	}
	if errors.Is(err, ErrBroken) {
		return true
	}
	if e := (*mysql.MyError)(nil); errors.As(err, &e) {
		return lostCode(e.Code) || refusedCode(e.Code)
	}
	return false
}

// ServerCode returns the number of the server's error in err, 0 where there is none.
func ServerCode(err error) uint16 {
	if e := (*mysql.MyError)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

// lostCode tells errors after which the server closes the connection.
func lostCode(code uint16) bool {
	switch code {
	case mysql.ER_SERVER_SHUTDOWN, // 1053
		mysql.ER_NORMAL_SHUTDOWN,          // 1077
		mysql.ER_NET_READ_ERROR_FROM_PIPE, // 1154
		mysql.ER_NET_PACKETS_OUT_OF_ORDER, // 1156
		mysql.ER_NET_READ_ERROR,           // 1158
		mysql.ER_NET_READ_INTERRUPTED,     // 1159
		mysql.ER_NET_ERROR_ON_WRITE,       // 1160
		mysql.ER_NET_WRITE_INTERRUPTED,    // 1161
		mysql.ER_NEW_ABORTING_CONNECTION,  // 1184
		1927,                              // MariaDB: connection was killed
		3169,                              // MySQL: session was killed
		4031:                              // MySQL: disconnected because of inactivity
		return true
	}
	return false
}

// refusedCode tells errors by which a server refuses a connection for the moment.
func refusedCode(code uint16) bool {
	switch code {
	case mysql.ER_CON_COUNT_ERROR, // 1040
		mysql.ER_BAD_HOST_ERROR,            // 1042
		mysql.ER_HANDSHAKE_ERROR,           // 1043
		mysql.ER_HOST_IS_BLOCKED,           // 1129
		mysql.ER_CANT_CREATE_THREAD,        // 1135
		mysql.ER_TOO_MANY_USER_CONNECTIONS: // 1203
		return true
	}
	return false
}
