package wake

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// recordingCourier is a Courier that records the wake-ups.
type recordingCourier struct {
	mu     sync.Mutex
	bodies map[int][][]byte
}

func (c *recordingCourier) Send(shard int, body []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bodies == nil {
		c.bodies = map[int][][]byte{}
	}
	c.bodies[shard] = append(c.bodies[shard], body)
}

// take returns the ids in the recorded wake-ups, sorted, and forgets the wake-ups.
func (c *recordingCourier) take(t *testing.T) (ids []int64) {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	for shard, bodies := range c.bodies {
		for _, body := range bodies {
			rows, err := decodeWake(body)
			if err != nil || rows[0].Shard != shard {
				t.Errorf("%q for shard %d: %v", body, shard, err)
			}
			for _, d := range rows {
				ids = append(ids, d.ID)
			}
		}
	}
	c.bodies = nil
	slices.Sort(ids)
	return ids
}

// fakeOwnership owns and loads the given shards.
type fakeOwnership struct {
	shards        []int
	rungElsewhere string // application that another node rings; "" for none
}

func (o *fakeOwnership) Shards() []int { return o.shards }

func (o *fakeOwnership) Owned() []int { return o.shards }

func (o *fakeOwnership) Rings(_ int, to store.Addressee) bool {
	return to.Application != o.rungElsewhere
}

// fixedTime is the time 1,000,000 of the database's clock.
type fixedTime struct{}

func (fixedTime) AtLeast() (clock.Instant, error) { return 1_000_000, nil }

func newTestSender(t *testing.T, o Ownership) *Sender {
	t.Helper()
	s, err := NewSender(SenderConfig{Window: 10 * time.Second},
		SenderDeps{Ownership: o, Time: fixedTime{}, Registerer: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A node sends one wake-up with each row that it commits and another node rings, if the row is due before the window's
// end. It sends none for rows that it rings itself.
func TestWakeUpsGoToNodesThatRingTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fakeOwnership{shards: []int{0}}
		s := newTestSender(t, o)
		var sent recordingCourier
		s.SendBy(&sent)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = s.Run(ctx) })
		due := func(id int64, at clock.Instant) store.Due {
			return store.Due{ID: id, NextTryTime: at, Shard: int(id % 3), Application: "a"}
		}
		want := func(what string, rows []store.Due, want ...int64) {
			t.Helper()
			s.Announce(rows)
			synctest.Wait()
			if got := sent.take(t); !slices.Equal(got, want) {
				t.Errorf("%s: wake-ups with %v, want %v", what, got, want)
			}
		}
		want("no row", nil)
		want("own shard", []store.Due{due(3, 1_000_500)})
		want("shards of other nodes", []store.Due{due(3, 1_000_500), due(1, 1_000_500), due(2, 1_010_999)}, 1, 2) // within the window plus windowMargin
		want("beyond the window", []store.Due{due(4, 1_011_000)})
		o.rungElsewhere = "a"
		want("own shard, rung elsewhere", []store.Due{due(6, 1_000_800)}, 6)
		if n := testutil.ToFloat64(s.sent); n != 3 {
			t.Errorf("%v rows sent", n)
		}
		cancel()
		running.Wait()
	})
}

func TestSenderSendsWaitingRowsWhenItStops(t *testing.T) {
	s := newTestSender(t, &fakeOwnership{})
	var sent recordingCourier
	s.SendBy(&sent)
	s.Announce([]store.Due{{ID: 1, NextTryTime: 1_000_500, Application: "a"}})
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(stopped); err != nil {
		t.Error(err)
	}
	if got := sent.take(t); !slices.Equal(got, []int64{1}) {
		t.Errorf("wake-ups with %v", got)
	}
}

// While the sender does not run, rows beyond maxUnsent are dropped and counted.
func TestUnsentRowsAreBounded(t *testing.T) {
	s := newTestSender(t, &fakeOwnership{})
	s.SendBy(&recordingCourier{})
	for range 3 {
		s.Announce(make([]store.Due, maxUnsent/2))
	}
	if s.count != maxUnsent || testutil.ToFloat64(s.dropped) != maxUnsent/2 {
		t.Errorf("%d rows wait, %v dropped", s.count, testutil.ToFloat64(s.dropped))
	}
}

func TestSenderWithoutCourierQueuesNothing(t *testing.T) {
	s := newTestSender(t, &fakeOwnership{})
	if s.Announce(make([]store.Due, 10)); s.count != 0 || testutil.ToFloat64(s.dropped) != 0 {
		t.Errorf("%d rows wait, %v dropped", s.count, testutil.ToFloat64(s.dropped))
	}
}

func TestSenderConfigNeedsAWindow(t *testing.T) {
	if _, err := NewSender(SenderConfig{}, SenderDeps{Registerer: prometheus.NewRegistry()}); err == nil {
		t.Error("a sender without a window is accepted")
	}
}
