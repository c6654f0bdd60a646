package ring

import (
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"
)

// TestMain gives the tests one processor, unless GOMAXPROCS is set: they simulate nodes in bubbles, and with the race detector they take a third less
// processor time so. make stress runs them on several.
func TestMain(m *testing.M) {
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	goleak.VerifyTestMain(m)
}
