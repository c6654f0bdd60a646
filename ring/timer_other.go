//go:build !linux

package ring

// PreciseTimer returns a timer of the runtime's: its precision is the system's.
func PreciseTimer() Timer { return newPlainTimer() }
