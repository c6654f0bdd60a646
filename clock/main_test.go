package clock

import (
	"log/slog"
	"testing"
	"time"
	_ "time/tzdata" // Oslo, whatever the machine has

	"go.uber.org/goleak"
)

// TestMain runs all tests in a zone with two offsets: nothing here may depend on it.
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
