package ring

import (
	"time"

	"golang.org/x/sys/unix"
)

// suspended returns the time for which the machine has been suspended since it started. CLOCK_BOOTTIME counts that
// time, CLOCK_MONOTONIC does not (clock_gettime(2)).
func suspended() time.Duration {
	var boot, monotonic unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil ||
		unix.ClockGettime(unix.CLOCK_MONOTONIC, &monotonic) != nil {
		return 0 // the kernel is older than 2.6.39
	}
	return time.Duration(boot.Nano() - monotonic.Nano())
}
