package clock

import (
	"log/slog"
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

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func testContent() Content {
	return Content{
		RingAt: 2_000_000, LatestRingAt: NoInstant, Payload: []byte(`{"a":1}`), PayloadKind: JSON,
		ContentType: "application/json", Retry: DefaultRetryPolicy(), MaxRings: DefaultMaxRings,
	}
}

func testSet(id string) *Set { return &Set{Key: Key{"shop", id}, Content: testContent()} }
