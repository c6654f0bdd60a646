package storetest

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is the TestMain of an adapter. The process runs in Europe/Oslo, and no goroutine may outlive the tests.
func Main(m *testing.M) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		panic(err)
	}
	time.Local = oslo
	_ = os.Setenv("TZ", "Europe/Oslo")
	goleak.VerifyTestMain(m)
}
