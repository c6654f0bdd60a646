//go:build race

package ring

import (
	"os"
	"runtime"
)

// The tests simulate nodes in bubbles. With the race detector they take a third less processor time on one processor.
// make stress sets GOMAXPROCS.
func init() {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
}
