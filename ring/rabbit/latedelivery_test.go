package rabbit

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// delayRings opens the lane, and delivers the rings while the proxy is stalled. It returns the late delivery. The proxy stays stalled.
func delayRings(t *testing.T, l *lane, p *proxy, batch []clock.Ring) ring.LateRings {
	t.Helper()
	waitUsable(t, l.s, hangGuard)
	if err := l.Open(t.Context(), len(batch)); err != nil {
		t.Fatal(err)
	}
	p.stall(true)
	var late ring.LateRings
	wantAll(t, l.Deliver(t.Context(), batch, awaiting(&late)), clock.Awaited)
	if late == nil {
		t.Fatal("no ring is awaited")
	}
	t.Cleanup(late.End)
	wantAll(t, late.Outcomes(), clock.Awaited)
	return late
}

// awaiting returns limits of a delivery that await the rings without a confirm, and sets late to them.
func awaiting(late *ring.LateRings) ring.Limits {
	limits := shortLimits()
	limits.Await = func(rings ring.LateRings) { *late = rings }
	return limits
}

// lateOutcomes returns the outcomes as soon as all are known.
func lateOutcomes(t *testing.T, late ring.LateRings) (outcomes []clock.Outcome) {
	t.Helper()
	eventually(t, hangGuard, "all outcomes are known", func() bool {
		outcomes = late.Outcomes()
		return count(outcomes)[clock.Awaited] == 0
	})
	return outcomes
}

// Confirms and returns that come after the reply limit are the outcomes of late rings. The lane goes on meanwhile, on another connection.
func TestLateRingsGetTheirOutcomes(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	queue := b.queue("shop", quorum)
	l := laneOf(t, s)
	batch := append(rings("shop", 50), rings("nobody", 2)...)
	late := delayRings(t, l, p, batch)
	p.stall(false)
	more := rings("shop", 5)
	wantAll(t, openAndDeliver(t.Context(), l, more, ampleLimits()), clock.Confirmed)
	if got, want := count(lateOutcomes(t, late)), map[clock.OutcomeKind]int{clock.Confirmed: 50, clock.Returned: 2}; !maps.Equal(got, want) {
		t.Errorf("late outcomes %v, want %v", got, want)
	}
	if late.Stuck() {
		t.Error("rings with outcomes are stuck")
	}
	late.End()
	late.End()
	if n := l.places.taken.Load(); n != 0 {
		t.Errorf("%d deliveries are still late", n)
	}
	arrived := b.arrived(queue)
	for _, r := range append(batch[:50:50], more...) {
		if arrived[r.MessageID()] != 1 {
			t.Errorf("ring %s arrived %d times", r.MessageID(), arrived[r.MessageID()])
		}
	}
}

func TestLateRingsAreInDoubtWithoutConnection(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	l := laneOf(t, startUsable(t, cfg))
	b.queue("shop", nil)
	late := delayRings(t, l, p, rings("shop", 5))
	p.stall(false)
	p.cut()
	eventually(t, hangGuard, "the rings have outcomes", func() bool { return count(late.Outcomes())[clock.Awaited] == 0 })
	l = laneOf(t, startUsable(t, cfg)) // the first session may notice the cut only during a delivery
	ended := delayRings(t, l, p, rings("shop", 5))
	ended.End()
	wantAll(t, ended.Outcomes(), clock.Doubtful)
}

// A delivery is stuck when one of its applications is silent while others are not, or when it alone gets no confirm for long.
func TestLateDeliveryIsStuckBesideConfirmsOfOthers(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	l := laneOf(t, s)
	b.queue("shop", nil)
	late, isLate := delayRings(t, l, p, rings("shop", 5)).(*lateDelivery)
	if !isLate {
		t.Fatal("not a late delivery")
	}
	expect := func(when string, want bool) {
		t.Helper()
		if got := late.Stuck(); got != want {
			t.Errorf("%s: stuck %t, want %t", when, got, want)
		}
	}
	confirmed := func(application string) *delivery {
		return &delivery{rings: rings(application, 1), states: []ringState{{outcome: clock.Outcome{Kind: clock.Confirmed}}}}
	}
	confirm := func(application string) { s.lastConfirms.note(confirmed(application)) }
	probed := func() { s.health.probePassed(s.health.doubtCount(), time.Now()) }
	since := late.since

	expect("at once", false)
	confirm("other")
	expect("another application was confirmed at once", false)
	late.since = since.Add(-stuckAfter)
	confirm("shop")
	confirm("other")
	expect("the application was confirmed on another lane", false)
	late.since = time.Now()
	late.progress = late.since.Add(-time.Minute)
	expect("without probes", false)
	probed()
	expect("after the first probe", false)
	late.probedFrom = time.Now().Add(-stuckBesideProbesAfter)
	expect("the newest probe is old", false)
	probed()
	expect("after a probe at the end of the time", true)

	late.progress, late.probedFrom = time.Now(), time.Time{}
	late.since = time.Now().Add(time.Millisecond)
	<-time.After(stuckAfter + 10*time.Millisecond)
	expect("nothing was confirmed since", false)
	s.lastConfirms.noteLate(confirmed("other"), nil, time.Now())
	expect("a ring of another application was confirmed late", false)
	confirm("other")
	expect("a ring of another application was confirmed in time once", false)
	late.othersFrom["shop"] = late.othersFrom["shop"].Add(-stuckAfter)
	s.lastConfirms.noteLate(confirmed("third"), nil, time.Now().Add(-time.Minute))
	expect("another delivery took longer", false)
	s.lastConfirms.mostLate = 0
	confirm("other")
	expect("only others were confirmed for some time", true)
	late.End()
	wantAll(t, late.Outcomes(), clock.Doubtful)
	if s.lastConfirms.confirmed != nil {
		t.Error("a session remembers confirms that nobody needs")
	}
	p.stall(false)
}

// A lane with many late deliveries does not open until one has ended.
func TestLaneWithManyLateDeliveriesDoesNotOpen(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	l := laneOf(t, startUsable(t, cfg))
	b.queue("shop", nil)
	var deliveries []ring.LateRings
	for range maxLate {
		deliveries = append(deliveries, delayRings(t, l, p, rings("shop", 2)))
		p.stall(false)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Open(ctx, 2); !errors.Is(err, ring.ErrLaneFull) {
		t.Errorf("opened with %d late deliveries: %v", maxLate, err)
	}
	for _, late := range deliveries {
		lateOutcomes(t, late)
	}
	opened := make(chan error, 1)
	go func() { opened <- l.Open(t.Context(), 2) }()
	deliveries[1].End()
	if err := <-opened; err != nil {
		t.Errorf("with a free place: %v", err)
	}
	wantAll(t, openAndDeliver(t.Context(), l, rings("shop", 2), ampleLimits()), clock.Confirmed)
}

// Frames that come after the reply limit decide the outcomes that they would decide in time.
func TestLateFramesDecideOutcomesLikeFramesInTime(t *testing.T) {
	for _, test := range confirmCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			late := make(chan struct{})
			s := script(t, 4096, func(s *scriptedBroker) {
				s.openConfirmChannel()
				message := s.messages(6)
				<-late
				says := test.says
				if test.back {
					says = join(returnFrames(message), says)
				}
				s.sendFrames(says)
				if !test.cut {
					s.until(connectionClose)
				}
			})
			var awaited ring.LateRings
			outcomes := openAndDeliver(t.Context(), s.lane(1000), rings("shop", 6), awaiting(&awaited))
			close(late)
			wantAll(t, outcomes, clock.Awaited)
			if got := spell(lateOutcomes(t, awaited)); got != test.want {
				t.Errorf("outcomes %s, want %s", got, test.want)
			}
			awaited.End()
			if got := spell(awaited.Outcomes()); got != test.want {
				t.Errorf("outcomes %s after the end, want %s", got, test.want)
			}
		})
	}
}

// Rings that were confirmed in time keep their outcomes, and the others are awaited.
func TestOnlyRingsWithoutConfirmAreAwaited(t *testing.T) {
	late := make(chan struct{})
	s := script(t, 4096, func(s *scriptedBroker) {
		s.openConfirmChannel()
		s.messages(6)
		s.sendFrames(join(each(basicAck, 2), each(basicNack, 4)))
		<-late
		s.sendFrames(join(each(basicNack, 1), upTo(basicAck, 6)))
		s.until(connectionClose)
	})
	var awaited ring.LateRings
	outcomes := openAndDeliver(t.Context(), s.lane(1000), rings("shop", 6), awaiting(&awaited))
	close(late)
	if got := spell(outcomes); got != "acanaa" {
		t.Errorf("outcomes %s at the reply limit", got)
	}
	if got := spell(lateOutcomes(t, awaited)); got != "nccncc" {
		t.Errorf("late outcomes %s", got)
	}
	awaited.End()
}
