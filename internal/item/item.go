// Package item has the words in which a server of the memcached protocols and the store of its items speak to each
// other: what a request wants of one item, and what came of it. It holds no code that keeps anything.
package item

// MaxKeyBytes is the longest key.
const MaxKeyBytes = 250

// RelativeSeconds is the longest time that is counted from now: 30 days. What is more is a Unix time.
const RelativeSeconds = 60 * 60 * 24 * 30

// Mode says what a Store does with the value that is there, and the one that isn't.
type Mode uint8

// The modes of storing.
const (
	Set Mode = iota
	Add
	Replace
	Append
	Prepend
)

// Request is what a client wants of one item. Which fields count depends on the method. Slices belong to the caller
// and are copied by who keeps them.
type Request struct {
	Key []byte
	// BinaryKey: the key came in base64 and is to be shown so again.
	BinaryKey bool
	Mode      Mode
	Value     []byte
	// MaxBytes bounds the value that an append or prepend makes; 0 does not.
	MaxBytes int
	// Flags are the client's 32 bits, stored with the value.
	Flags uint32
	// Exptime is the time as the protocols write it: 0 is never, negative is over at once, up to RelativeSeconds counts
	// from now, more is a Unix time.
	Exptime int64
	// Touch makes a fetch, a deletion that leaves the item, or an arithmetic set Exptime.
	Touch bool
	// Compare lets the request change an item of that CAS only.
	Compare bool
	CAS     uint64
	// GiveCAS makes NewCAS the item's number in place of one of the store's.
	GiveCAS bool
	NewCAS  uint64

	// Create makes a fetch, an append, a prepend or an arithmetic put a new item where there is none, for
	// CreateExptime.
	Create        bool
	CreateExptime int64
	// Lease makes a fetch tell one of its callers (View.Won) to compute the value anew: of an item that is stale, or
	// whose time left is below Recache seconds.
	Lease   bool
	Recache int32
	// NoBump makes a fetch leave no trace: it counts neither as use nor as a fetch.
	NoBump bool

	// Stale makes a deletion leave the item as stale, and a Store with an older CAS store it as stale.
	Stale bool
	// DropValue makes a deletion leave the item without its value and flags.
	DropValue bool

	// Delta is what an arithmetic adds, or takes off when Decrement is set; Initial is the number that Create begins
	// with.
	Delta     uint64
	Decrement bool
	Initial   uint64
}

// View is an item as it is shown to a reader. It and its Value are valid during the call that they are given to.
type View struct {
	Value []byte
	Flags uint32
	CAS   uint64
	// Left is the time left in seconds, -1 for ever.
	Left int64
	// Idle is the time since the last use in seconds, and Fetched tells that there was a fetch, both before this one.
	Idle    int64
	Fetched bool
	// Size is the memory that the item takes.
	Size int
	// Stale, Won and Sent are the lease: the value is out of date, this caller is to compute it, another one already is.
	Stale, Won, Sent bool
	// Created: the fetch has put the item there.
	Created   bool
	BinaryKey bool
}

// Status is how a request ended.
type Status uint8

// What a request can end with.
const (
	// Done: stored, deleted, touched, counted.
	Done Status = iota
	// NotStored: the item is there and the mode wants none, or the other way round.
	NotStored
	// Exists: the item's CAS is another one.
	Exists
	// NotFound: there is no item to work on.
	NotFound
	// NotNumber: the value is no unsigned number of 64 bits.
	NotNumber
	// TooLarge: the item would be over the limit of one item.
	TooLarge
	// NoMemory: there is no room for an item of this size.
	NoMemory
)

// Result is what came of a request that changes an item.
type Result struct {
	Status Status
	// CAS is the item's number now; 0 when it was not changed.
	CAS uint64
	// Number is an arithmetic's result; Length is that of the value, Left its time as in View.
	Number uint64
	Length int
	Left   int64
	// BinaryKey as in View.
	BinaryKey bool
	// Created: the item was not there before.
	Created bool
}

// Expires turns a time of the protocols into a Unix time: 0 is never, and what is over at once is 1.
func Expires(exptime, now int64) int64 {
	switch {
	case exptime == 0:
		return 0
	case exptime < 0:
		return 1
	case exptime <= RelativeSeconds:
		return now + exptime
	}
	return exptime
}
