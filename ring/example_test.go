package ring_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// printer is a target that prints rings. It is always usable, and prints the rings of all applications.
type printer struct{ out io.Writer }

func (p printer) Usable() error            { return nil }
func (p printer) Accepts(string) error     { return nil }
func (p printer) Changed() <-chan struct{} { return nil }
func (p printer) Lane(int) ring.Lane       { return printerLane(p) }

// printerLane needs no connection, so it is always open and never breaks.
type printerLane struct{ out io.Writer }

func (l printerLane) Open(context.Context, int) error { return nil }
func (l printerLane) Broken() <-chan struct{}         { return nil }
func (l printerLane) Close() error                    { return nil }

func (l printerLane) Deliver(_ context.Context, rings []clock.Ring, limits ring.Limits) []clock.Outcome {
	outcomes := make([]clock.Outcome, len(rings))
	for i, r := range rings {
		if limits.TooLateToWrite() {
			outcomes[i] = clock.Outcome{Kind: clock.Unsent, Reason: "the time to write has passed"}
			continue
		}
		if _, err := fmt.Fprintf(l.out, "%s rings: %s\n", r.BusinessID, r.Payload); err != nil {
			outcomes[i] = clock.Outcome{Kind: clock.Doubtful, Reason: err.Error()} // a part may have been printed
			continue
		}
		outcomes[i] = clock.Outcome{Kind: clock.Confirmed}
	}
	return outcomes
}

// A target hands rings over, and says what became of each.
func ExampleTarget() {
	var target ring.Target = printer{os.Stdout}
	lane := target.Lane(1)
	defer func() { _ = lane.Close() }()
	if err := lane.Open(context.Background(), 2); err != nil {
		fmt.Println(err)
		return
	}
	rings := []clock.Ring{
		{Key: clock.Key{Application: "shop", BusinessID: "order-1"}, Payload: []byte("cancel")},
		{Key: clock.Key{Application: "shop", BusinessID: "order-2"}, Payload: []byte("remind")},
	}
	now := time.Now()
	limits := ring.Limits{WriteBy: now.Add(time.Second), ReplyBy: now.Add(2 * time.Second)}
	for _, outcome := range lane.Deliver(context.Background(), rings, limits) {
		fmt.Println(outcome.Kind)
	}
	// Output:
	// order-1 rings: cancel
	// order-2 rings: remind
	// confirmed
	// confirmed
}
