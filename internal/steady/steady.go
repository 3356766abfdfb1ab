// Package steady is a clock for ages: it never jumps, whatever is done to the time of day, and goes on while the machine
// is suspended, where the system can tell.
package steady

import "time"

// Time is a reading of the clock. Only differences mean anything. The zero value can stand for "never": no reading is
// zero.
type Time int64

var begun = time.Now()

// Since is the age of a reading, at least a nanosecond.
func (t Time) Since() time.Duration { return max(time.Duration(Now()-t), 1) }
