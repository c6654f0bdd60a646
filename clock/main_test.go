package clock

import (
	"testing"
	"time"
	_ "time/tzdata" // has Oslo, even if the machine has no time zones

	"go.uber.org/goleak"
)

// TestMain runs all tests in a time zone with two offsets, because no result may depend on the zone.
func TestMain(m *testing.M) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		panic(err)
	}
	time.Local = oslo
	goleak.VerifyTestMain(m)
}

// newTestTimebase returns a Timebase with the default configuration.
func newTestTimebase(tb testing.TB, deps TimebaseDeps) *Timebase {
	tb.Helper()
	timebase, err := NewTimebase(DefaultTimebaseConfig(), deps)
	if err != nil {
		tb.Fatal(err)
	}
	return timebase
}

func testContent() Content {
	return Content{
		RingAt: 2_000_000, LatestRingAt: NoInstant, Payload: []byte(`{"a":1}`), PayloadKind: JSON,
		ContentType: "application/json", Retry: DefaultRetryPolicy(), MaxRings: DefaultMaxRings,
	}
}

func testSet(id string) *Set { return &Set{Key: Key{"shop", id}, Content: testContent()} }
