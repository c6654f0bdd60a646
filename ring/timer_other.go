//go:build !linux

package ring

// PreciseTimer returns a timer of the Go runtime. Its precision depends on the system.
func PreciseTimer() Timer { return newPlainTimer() }
