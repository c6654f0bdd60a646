package storetest

import (
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// claimFor claims ids for a target, and leaves rows that are in doubt at the other targets.
func (f *fixture) claimFor(
	now clock.Instant, target clock.TargetKind, others []clock.TargetKind, inDoubtOnly bool, ids ...int64,
) *claim {
	f.t.Helper()
	r := f.request(now, ids...)
	r.Target, r.OtherTargets, r.InDoubtOnly = target, others, inDoubtOnly
	return f.claimRequest(r)
}

// testDoubtTarget demands that a try in doubt stays with its target, and that all other tries may go to any target.
func testDoubtTarget(t *testing.T, f *fixture) {
	ids := f.set(t0, set("doubtful", t0), set("awaited", t0), set("returned", t0), set("fresh", t0))
	doubtful, awaited, returned, fresh := ids[0], ids[1], ids[2], ids[3]
	amqp, stream := []clock.TargetKind{clock.TargetAMQP}, []clock.TargetKind{clock.TargetStream}
	outcomes := map[int64]clock.OutcomeKind{doubtful: clock.Doubtful, awaited: clock.Awaited, returned: clock.Returned}
	first := f.claimFor(t0, clock.TargetAMQP, stream, false, doubtful, awaited, returned).wantRings(doubtful, awaited,
		returned)
	first.settle(t0+1, func(r *clock.Ring) clock.Outcome { return clock.Outcome{Kind: outcomes[r.AlarmID]} })
	same(t, "target of the doubtful try", f.get("doubtful").DoubtTarget, clock.TargetAMQP)
	same(t, "target of the awaited try", f.get("awaited").DoubtTarget, clock.TargetAMQP)
	same(t, "target of the returned try", f.get("returned").DoubtTarget, clock.NoTarget)

	now := t0.Add(time.Minute)
	c := f.claimFor(now, clock.TargetStream, amqp, false, ids...).wantRings(fresh, returned)
	same(t, "rows in doubt elsewhere", c.Elsewhere,
		[]store.Elsewhere{{ID: doubtful, Target: clock.TargetAMQP}, {ID: awaited, Target: clock.TargetAMQP}})
	c.settle(now+1, everyRing(clock.Doubtful))
	same(t, "target of the other doubtful try", f.get("fresh").DoubtTarget, clock.TargetStream)

	now = now.Add(time.Minute)
	c = f.claimFor(now, clock.TargetAMQP, stream, true, ids...).wantRings(doubtful, awaited)
	same(t, "rows in doubt elsewhere", c.Elsewhere,
		[]store.Elsewhere{{ID: returned, Target: clock.TargetStream}, {ID: fresh, Target: clock.TargetStream}})
	c.settle(now+1, func(r *clock.Ring) clock.Outcome {
		return clock.Outcome{Kind: map[bool]clock.OutcomeKind{true: clock.Confirmed,
			false: clock.Unsent}[r.AlarmID == doubtful]}
	})
	same(t, "target of a confirmed ring", f.get("doubtful").DoubtTarget, clock.NoTarget)
	same(t, "target of a try that was not repeated", f.get("awaited").DoubtTarget, clock.TargetAMQP)

	now = now.Add(time.Minute)
	before := *f.get("awaited")
	c = f.claimFor(now, clock.TargetAMQP, nil, true, returned, awaited,
		f.set(now, set("new", now))[0]).wantRings(awaited)
	same(t, "rows that are not in doubt at the target", len(c.Elsewhere), 2)
	for _, e := range c.Elsewhere {
		same(t, "their target", e.Target, clock.NoTarget)
	}
	c.release()
	f.want(before)
	f.claimFor(now, clock.TargetStream, nil, false, awaited, fresh).wantRings(fresh, awaited).settle(now+1,
		everyRing(clock.Doubtful))
	same(t, "target of a try that was repeated elsewhere", f.get("awaited").DoubtTarget, clock.TargetStream)
}

// testNamedTargets demands that a claim takes alarms only by the targets that they name, fresh ones and others, and
// that the report shows these targets.
func testNamedTargets(t *testing.T, f *fixture) {
	ids := f.set(t0, set("hook", t0, named(clock.TargetWebhook)), set("none", t0),
		set("moved", t0, named(clock.TargetPull)), set("old", t0, named(clock.TargetPull)),
		set("one", t0, toDestination(clock.TargetWebhook, "one", 1)),
		set("last", t0, toDestination(clock.TargetPull, "the.last_1", 255)), // fits the column
		set("other", t0, toDestination(clock.TargetGRPC, "one", 2)),
		set("own", t0, ownReceiver(clock.TargetWebhook, "one", `{"url":"ü"}`)),
		set("own too", t0, ownReceiver(clock.TargetWebhook, "", `{"url":"http://a"}`)))
	hook, none, moved, old, one, last, other := ids[0], ids[1], ids[2], ids[3], ids[4], ids[5], ids[6]
	own, ownToo := ids[7], ids[8]
	f.set(t0, set("moved", t0, named(clock.TargetStream))) // in the millisecond of the first set: as if it were fresh
	f.set(t0+1, set("old", t0), set("other", t0, toDestination(clock.TargetGRPC, "two", 3)))
	same(t, "target of a set that names another", f.get("moved").Target, clock.TargetStream)
	same(t, "target of a set that names none", f.get("old").Target, clock.NoTarget)
	same(t, "alarm_report", f.report("SELECT business_id, target FROM alarm_report ORDER BY business_id"), [][]string{
		{"hook", "webhook"}, {"last", "pull/the.last_1"}, {"moved", "stream"}, {"none", "NULL"}, {"old", "NULL"},
		{"one", "webhook/one"}, {"other", "grpc/two"}, {"own", "webhook/one"}, {"own too", "webhook"},
	})
	claimNamed := func(named map[int64]store.Named) *claim {
		r := f.request(t0+2, ids...)
		r.Named = named
		return f.claimRequest(r)
	}
	hooks, pulls := store.Named{Target: clock.TargetWebhook}, store.Named{Target: clock.TargetPull}
	toOne := store.Named{Target: clock.TargetWebhook, Destination: 1}
	toLast := store.Named{Target: clock.TargetPull, Destination: 255}
	c := claimNamed(map[int64]store.Named{hook: {Target: clock.TargetStream}, none: {Target: clock.TargetStream},
		moved: pulls, old: pulls, one: hooks, last: pulls, other: {Target: clock.TargetGRPC, Destination: 2},
		own: toOne, ownToo: hooks}).wantRings()
	same(t, "rows for other targets", len(c.Elsewhere), 0)
	toOwn := store.Named{Target: clock.TargetWebhook, Destination: clock.OwnNumber("somewhere")}
	wanted := map[int64]store.Named{hook: hooks, moved: pulls, one: toOne, last: toLast, own: toOwn, ownToo: toOwn}
	c = claimNamed(wanted)
	same(t, "rings", len(c.Rings), 7)
	receivers := map[int64]clock.OwnReceiver{own: {Fields: `{"url":"ü"}`, Destination: "one"},
		ownToo: {Fields: `{"url":"http://a"}`}}
	for i := range c.Rings {
		r := &c.Rings[i]
		same(t, "what the ring's alarm names", store.NamedByRing(r), wanted[r.AlarmID])
		same(t, "receiver of the ring's own", r.Own, receivers[r.AlarmID])
	}
	c.settle(t0+3, everyRing(clock.Confirmed))
	c = claimNamed(map[int64]store.Named{moved: {Target: clock.TargetStream},
		other: {Target: clock.TargetGRPC, Destination: 3}})
	c.wantRings(moved, other).settle(t0+3, everyRing(clock.Confirmed))
}

// testTargetOfLostClaim demands that a two-phase claim that was lost with its node is repeated at its target.
func testTargetOfLostClaim(t *testing.T, f *fixture) {
	ids := f.set(t0, set("a", t0), set("b", t0))
	f.set(t0+1, set("b", t0+1)) // so that it is not fresh
	now := t0 + 2
	f.claimFor(now, clock.TargetStream, nil, false, ids...).wantRings(ids...)
	same(t, "target of the claim", f.get("a").DoubtTarget, clock.TargetStream)
	end := now.Add(f.timeout)
	c := f.claimFor(end, clock.TargetAMQP, []clock.TargetKind{clock.TargetStream}, false, ids...).wantRings()
	same(t, "rows of the lost claim", c.Elsewhere,
		[]store.Elsewhere{{ID: ids[0], Target: clock.TargetStream}, {ID: ids[1], Target: clock.TargetStream}})
	f.claimFor(end, clock.TargetStream, nil, true, ids...).wantRings(ids...).settle(end+1, everyRing(clock.Confirmed))
	same(t, "state", f.get("b").State, clock.Rung)
}
