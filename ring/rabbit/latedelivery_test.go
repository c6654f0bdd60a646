package rabbit

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// delayRings opens the lane, and delivers the rings while the proxy is stalled. It returns the late delivery. The proxy
// stays stalled.
func delayRings(t *testing.T, l *lane, p *rabbittest.Proxy, batch []clock.Ring) ring.LateRings {
	t.Helper()
	waitUsable(t, l.s, rabbittest.HangGuard)
	if err := l.Open(t.Context(), len(batch)); err != nil {
		t.Fatal(err)
	}
	p.Stall(true)
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
	rabbittest.Eventually(t, rabbittest.HangGuard, "all outcomes are known", func() bool {
		outcomes = late.Outcomes()
		return count(outcomes)[clock.Awaited] == 0
	})
	return outcomes
}

// Confirms and returns that come after the reply limit are the outcomes of late rings. The lane goes on meanwhile, on
// another connection.
func TestLateRingsGetTheirOutcomes(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", rabbittest.Quorum)
	l := laneOf(t, s)
	batch := append(rings("shop", 50), rings("nobody", 2)...)
	late := delayRings(t, l, p, batch)
	p.Stall(false)
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
	arrived := b.Arrived(queue)
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
	b.Queue("shop", nil)
	late := delayRings(t, l, p, rings("shop", 5))
	p.Stall(false)
	p.Cut()
	rabbittest.Eventually(t, rabbittest.HangGuard, "the rings have outcomes",
		func() bool { return count(late.Outcomes())[clock.Awaited] == 0 })
	l = laneOf(t, startUsable(t, cfg)) // the first session may notice the cut only during a delivery
	ended := delayRings(t, l, p, rings("shop", 5))
	ended.End()
	wantAll(t, ended.Outcomes(), clock.Doubtful)
}

// lateTest is a late delivery whose connection is stalled, with its session.
type lateTest struct {
	*lateDelivery
	t *testing.T
	s *Session
}

// startLateTest delivers rings of the applications, and returns them as a late delivery.
func startLateTest(t *testing.T, applications ...string) *lateTest {
	t.Helper()
	b, p, cfg := proxied(t)
	s := startUsable(t, cfg)
	var batch []clock.Ring
	for _, application := range applications {
		b.Queue(application, nil)
		batch = append(batch, rings(application, 5)...)
	}
	late, isLate := delayRings(t, laneOf(t, s), p, batch).(*lateDelivery)
	if !isLate {
		t.Fatal("not a late delivery")
	}
	t.Cleanup(func() { p.Stall(false) })
	return &lateTest{lateDelivery: late, t: t, s: s}
}

// ofOne returns a delivery of one confirmed ring.
func ofOne(application string) *delivery {
	return &delivery{rings: rings(application, 1), states: []ringState{{outcome: clock.Outcome{Kind: clock.Confirmed}}}}
}

// confirm notes a confirm in time.
func (l *lateTest) confirm(application string) { l.s.lastConfirms.note(ofOne(application)) }

// confirmLate notes a late confirm of a delivery that was set aside at a time.
func (l *lateTest) confirmLate(application string, setAside time.Time) {
	l.s.lastConfirms.noteLate(ofOne(application), nil, setAside)
}

// elapse makes the delivery that much older than it is.
func (l *lateTest) elapse(d time.Duration) {
	l.since = l.since.Add(-d)
	for _, p := range l.besideOthers {
		if !p.from.IsZero() {
			p.from = p.from.Add(-d)
		}
	}
}

// expect checks how many rings are awaited.
func (l *lateTest) expect(when string, awaited int) {
	l.t.Helper()
	if got := count(l.Outcomes()); got[clock.Awaited] != awaited || got[clock.Doubtful] != len(l.rings)-awaited {
		l.t.Errorf("%s: %v, want %d awaited and the others in doubt", when, got, awaited)
	}
}

// A late delivery is stuck when it gets no confirm for long, although the broker confirms probes.
func TestLateDeliveryIsStuckBesideProbes(t *testing.T) {
	t.Parallel()
	l := startLateTest(t, "shop")
	expect := func(when string, want bool) {
		t.Helper()
		if got := l.Stuck(); got != want {
			t.Errorf("%s: stuck %t, want %t", when, got, want)
		}
	}
	probed := func() { l.s.health.probePassed(l.s.health.doubtCount(), time.Now()) }
	expect("at once", false)
	l.progress = time.Now().Add(-time.Hour)
	expect("without probes", false)
	probed()
	expect("after the first probe", false)
	l.besideProbes.from = time.Now().Add(-stuckBesideProbes)
	expect("the newest probe is old", false)
	probed()
	expect("after a probe at the end of the time", true)
	l.End()
	l.expect("after the end", 0)
}

// The late rings of an application are given up when it alone is silent for long. The rings of others in the delivery
// are still awaited.
func TestSilentApplicationIsGivenUpAlone(t *testing.T) {
	t.Parallel()
	l := startLateTest(t, "shop", "slow")
	l.expect("at once", 10)
	l.confirm("other")
	l.expect("another application was confirmed at once", 10)
	l.elapse(firstPatience)
	l.confirm("shop")
	l.confirm("slow")
	l.confirm("other")
	l.expect("the applications were confirmed on another lane", 10)

	l.since, l.s.lastConfirms.confirmed = time.Now(), nil
	clear(l.besideOthers)
	l.elapse(firstPatience)
	l.confirmLate("slow", time.Now())
	l.confirmLate("other", time.Now())
	l.expect("a ring of another application was confirmed late", 10)
	l.since = time.Now()
	<-time.After(time.Millisecond)
	l.confirmLate("slow", time.Now())
	l.confirm("other")
	l.expect("a ring of another application was confirmed in time once", 10)
	l.elapse(firstPatience)
	l.confirmLate("third", time.Now().Add(-time.Minute))
	l.confirm("other")
	l.expect("another delivery took longer", 10)
	l.s.lastConfirms.mostLate = 0
	l.confirm("other")
	l.expect("only others were confirmed for some time", 5)
	for i, o := range l.Outcomes() {
		if want := l.rings[i].Application == "shop"; (o.Kind == clock.Doubtful) != want ||
			want && o.Reason != givenUpReason {
			t.Errorf("ring of %s: %+v", l.rings[i].Application, o)
		}
	}
	l.End()
	l.expect("after the end", 0)
	if l.s.lastConfirms.confirmed != nil {
		t.Error("a session remembers confirms that nobody needs")
	}
}

// Rings without a confirm are given up when later rings of the same application are confirmed on other connections for
// long.
func TestRingsOfASilentConnectionAreGivenUp(t *testing.T) {
	t.Parallel()
	l := startLateTest(t, "shop", "slow")
	elapse := func() {
		l.since, l.progress = l.since.Add(-stuckBesideRings), l.progress.Add(-stuckBesideRings)
		for _, p := range l.besideRings {
			if !p.from.IsZero() {
				p.from = p.from.Add(-stuckBesideRings)
			}
		}
	}
	l.confirm("shop")
	l.expect("a later ring was confirmed once", 10)
	elapse()
	l.confirmLate("shop", time.Now())
	l.expect("since then, rings are confirmed late", 10)
	l.confirmLate("slow", time.Now().Add(-time.Minute))
	l.confirm("shop")
	l.expect("another delivery took longer", 10)
	l.s.lastConfirms.mostLate = 0
	l.expect("later rings are confirmed for long", 5)
}

// Each time that late rings of an application are given up, its next ones are awaited for longer.
func TestPatienceWithSilentApplicationsGrows(t *testing.T) {
	t.Parallel()
	c := &lastConfirms{}
	want := func(when string, want time.Duration) {
		t.Helper()
		if got := c.patienceWith("shop"); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
	want("at first", firstPatience)
	before := time.Now().Add(-time.Second)
	c.noteSilent("shop", time.Now())
	want("once", 2*firstPatience)
	c.noteSilent("shop", before)
	want("a delivery that was set aside before", 2*firstPatience)
	for range 10 {
		c.noteSilent("shop", time.Now())
	}
	want("often", mostPatience)
	c.begin()
	age := func(by time.Duration) {
		p := c.patience["shop"]
		p.used = p.used.Add(-by)
		c.patience["shop"] = p
	}
	age(patienceKept)
	c.noteLate(ofOne("shop"), nil, time.Now())
	c.noteSilent("other", time.Now())
	want("after a late confirm", mostPatience)
	age(2 * patienceKept)
	c.noteSilent("other", time.Now())
	want("long after the last late confirm", firstPatience)
}

// A lane with many late deliveries does not open until one has ended.
func TestLaneWithManyLateDeliveriesDoesNotOpen(t *testing.T) {
	t.Parallel()
	b, p, cfg := proxied(t)
	l := laneOf(t, startUsable(t, cfg))
	b.Queue("shop", nil)
	var deliveries []ring.LateRings
	for range testMaxLate {
		deliveries = append(deliveries, delayRings(t, l, p, rings("shop", 2)))
		p.Stall(false)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.Open(ctx, 2); !errors.Is(err, ring.ErrLaneFull) {
		t.Errorf("opened with %d late deliveries: %v", testMaxLate, err)
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
	t.Parallel()
	for _, test := range confirmCases {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			late := make(chan struct{})
			s := scripted.Start(t, 4096, func(s *scripted.Broker) {
				s.OpenConfirmChannel()
				message := s.Messages(6)
				<-late
				says := test.says
				if test.back {
					says = scripted.Join(scripted.ReturnFrames(message), says)
				}
				s.SendFrames(says)
				if !test.cut {
					s.Until(scripted.ConnectionClose)
				}
			})
			var awaited ring.LateRings
			outcomes := openAndDeliver(t.Context(), laneTo(t, s, 1000), rings("shop", 6), awaiting(&awaited))
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
	t.Parallel()
	late := make(chan struct{})
	s := scripted.Start(t, 4096, func(s *scripted.Broker) {
		s.OpenConfirmChannel()
		s.Messages(6)
		s.SendFrames(scripted.Join(scripted.Each(scripted.MethodAck, 2), scripted.Each(scripted.MethodNack, 4)))
		<-late
		s.SendFrames(scripted.Join(scripted.Each(scripted.MethodNack, 1), scripted.UpTo(scripted.MethodAck, 6)))
		s.Until(scripted.ConnectionClose)
	})
	var awaited ring.LateRings
	outcomes := openAndDeliver(t.Context(), laneTo(t, s, 1000), rings("shop", 6), awaiting(&awaited))
	close(late)
	if got := spell(outcomes); got != "acanaa" {
		t.Errorf("outcomes %s at the reply limit", got)
	}
	if got := spell(lateOutcomes(t, awaited)); got != "nccncc" {
		t.Errorf("late outcomes %s", got)
	}
	awaited.End()
}
