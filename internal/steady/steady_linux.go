package steady

import (
	"time"

	"golang.org/x/sys/unix"
)

// Now reads the clock. It costs a system call: some 100 ns.
func Now() Time {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return Time(time.Since(begun)) + 1 // a sandbox may refuse the call, and then does so always
	}
	return Time(ts.Nano())
}
