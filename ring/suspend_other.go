//go:build !linux

package ring

import "time"

// suspended returns 0, because this system does not report suspensions.
func suspended() time.Duration { return 0 }
