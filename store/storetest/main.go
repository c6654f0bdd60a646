package storetest

import (
	"flag"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is the TestMain of an adapter. The process runs in Europe/Oslo, and no goroutine may outlive the tests. Three
// tests run at a time on any machine, because they mostly wait.
func Main(m *testing.M) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		panic(err)
	}
	time.Local = oslo
	_ = os.Setenv("TZ", "Europe/Oslo")
	if err := flag.Set("test.parallel", "3"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// partly reports whether slow tests do a part of their work: with the race detector, and with the flag -short.
func partly() bool { return underRace || testing.Short() }
