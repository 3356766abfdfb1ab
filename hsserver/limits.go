package hsserver

// The bounds of what one client can ask for. The plugin had none of them, and a request of a few bytes could end the
// database server.
const (
	// MaxLineBytes is the length of the longest request line. Values of several megabytes were written through the
	// plugin; 16 MiB is what MariaDB takes in one packet by default. A longer line loses the framing, so it is answered
	// with an error and the connection is closed.
	MaxLineBytes = 16 << 20
	// maxUnauthorizedLineBytes is the same before a client has shown the secret.
	maxUnauthorizedLineBytes = 64 << 10
	// maxKeyValues is the largest count of key values: MySQL allows 16 parts of an index and MariaDB 32, and the plugin
	// has the same bound.
	maxKeyValues = 32
	// maxIndexID is the largest index id. Ids are kept in a map, so the bound costs nothing; clients count from 0.
	maxIndexID = 1<<20 - 1
	// maxOpenBytes bounds the memory of all open indexes of a connection: their names, and a position for each column.
	// 4 MiB are some ten thousand ids of ten columns.
	maxOpenBytes = 4 << 20
	// maxAllOpenBytes bounds the same for all connections of a port together; freeOpenBytes, some hundred ids, every
	// connection may have.
	maxAllOpenBytes = 256 << 20
	freeOpenBytes   = 64 << 10
	// maxInValues is the largest IN list. Missing values count as empty ones, so a short line can ask for that many
	// searches.
	maxInValues = 1 << 16
	// maxFilters bounds the filters of a request; each is looked at for each row.
	maxFilters = 256
	// maxAnswerBytes bounds one answer, which has to be in memory as a whole before any of it is sent. It is a few
	// times the largest value that the servers send by default (16 to 64 MiB), and far above what a page needs.
	maxAnswerBytes = 128 << 20
	// maxAnswerRows bounds the rows of one answer, for answers whose rows hold nothing.
	maxAnswerRows = 1 << 24
)

// limit is a bound that requests have gone beyond, for the counters.
type limit uint8

const (
	limitNone     limit = iota
	limitLine           // MaxLineBytes, maxUnauthorizedLineBytes
	limitID             // maxIndexID
	limitOpen           // maxOpenBytes
	limitInValues       // maxInValues
	limitFilters        // maxFilters
	limitAnswer         // maxAnswerBytes, maxAnswerRows
	limitCount
)

var limitNames = [limitCount]string{"", "line", "index_id", "open_indexes", "in_values", "filters", "answer"}

// The bounds of what is answered from memory at once. A find beyond them is searched again by a worker while the loop
// serves its other connections: about a millisecond is lost then.
const (
	inlineRows   = 2000
	inlineBytes  = 512 << 10
	inlineValues = 200 // of an IN list
)
