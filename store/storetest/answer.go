package storetest

import (
	"cmp"
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// answer returns an op that answers the ring of the alarm with the ring number.
func answer(kind clock.AnswerKind, a *clock.Alarm, ringNo int) clock.Op {
	return clock.Op{Answer: &clock.Answer{
		Key: a.Key, Ring: clock.RingID{AlarmID: a.ID, Generation: a.Generation, RingNo: ringNo}, Kind: kind,
		Reason: "größer ✗ 'quoted'", By: "10.0.0.7 – ö",
	}}
}

// resend returns an op that sends the ring of the alarm with the ring number again.
func resend(a *clock.Alarm, ringNo int) clock.Op {
	return clock.Op{Resend: &clock.Resend{
		Key: a.Key, Ring: clock.RingID{AlarmID: a.ID, Generation: a.Generation, RingNo: ringNo}, ClaimID: a.ClaimID,
		Target: clock.TargetStream,
	}}
}

// ringingAlarm sets an alarm with an ack_timeout, lets it ring and returns it.
func (f *fixture) ringingAlarm(id string, maxRings int) *clock.Alarm {
	f.t.Helper()
	f.set(t0-1000, set(id, t0, acknowledgedWithin(time.Minute, maxRings), payload([]byte("stays")), priority(3)))
	f.claim(t0, f.get(id).ID).settle(t0, everyRing(clock.Confirmed))
	return f.get(id)
}

// testAnswers writes each kind of answer to a ring, and demands that a second answer is refused.
func testAnswers(t *testing.T, f *fixture) {
	for _, kind := range []clock.AnswerKind{clock.Ack, clock.Release, clock.Bury, clock.Touch} {
		before := f.ringingAlarm("answer "+kind.String(), 3)
		op := answer(kind, before, 1)
		want := op.Decide(before, t0+9)
		same(t, "verdict of the model", want.Verdict, clock.Amend)
		f.wantDecision(kind.String(), op, want)
		a := f.get(before.BusinessID)
		same(t, "kind, sender and time of the answer", fmt.Sprint(a.Answer, a.AnsweredBy, a.AnsweredAt),
			fmt.Sprint(kind, op.Answer.By, t0+9))
		same(t, "content", a.Content, before.Content)
		if want.Attempt == nil {
			f.wantAttempts(a.BusinessID)
		} else {
			f.wantAttempts(a.BusinessID, *want.Attempt)
			same(t, "answered by", a.Attempts[0].By, op.Answer.By)
		}
		again := answer(kind, before, 1)
		f.wantDecision("second "+kind.String(), again, again.Decide(a, t0+9))
	}
	same(t, "claimed after a release", f.claim(t0+9, f.get("answer release").ID).ids(),
		[]int64{f.get("answer release").ID})
	same(t, "claimed before the touch ends", len(f.claim(t0+9, f.get("answer touch").ID).Rings), 0)
}

// testSetForgetsAnswer sets an answered alarm again: the new generation has no answer.
func testSetForgetsAnswer(t *testing.T, f *fixture) {
	before := f.ringingAlarm("set again", 3)
	f.set(t0+1, answer(clock.Release, before, 1))
	f.set(t0+2, set("set again", t0+3, acknowledgedWithin(time.Minute, 3)))
	a := f.get("set again")
	same(t, "answer", fmt.Sprint(a.Answer, a.AnsweredBy, a.AnsweredAt, a.RingNo),
		fmt.Sprint(clock.NoAnswer, "", clock.NoInstant, 0))
	same(t, "attempts", len(a.Attempts), 1)
}

// testAnswerInDoubt answers a ring in doubt: the answer proves that the ring arrived.
func testAnswerInDoubt(t *testing.T, f *fixture) {
	f.set(t0, set("doubt", t0, acknowledgedWithin(time.Minute, 3)))
	f.claim(t0, f.get("doubt").ID).settle(t0+1, everyRing(clock.Doubtful))
	before := f.get("doubt")
	op := answer(clock.Ack, before, 1)
	f.wantDecision("answer in doubt", op, op.Decide(before, t0+9))
	a := f.get("doubt")
	same(t, "row", fmt.Sprint(a.State, a.RingNo, a.InDoubt, a.RungAt, a.FinishedAt),
		fmt.Sprint(clock.Rung, 1, false, t0+9, t0+9))
}

// testResend sends rings again. They keep their message ids, and their target. A cancel and an answer know about it.
func testResend(t *testing.T, f *fixture) {
	f.set(t0-1000, set("rung", t0, payload([]byte("stays"))))
	f.claim(t0, f.get("rung").ID).settle(t0, everyRing(clock.Confirmed))
	f.ringingAlarm("ringing", 1)
	for _, id := range []string{"rung", "ringing"} {
		before := f.get(id)
		op := resend(before, 1)
		want := op.Decide(before, t0+9)
		same(t, "verdict of the model", want.Verdict, clock.Amend)
		f.wantDecision(id, op, want)
		f.wantAttempts(id, *want.Attempt)
		again := resend(before, 1)
		same(t, "second verdict", f.write(t0+9, again)[0].Verdict, clock.Keep)
		same(t, "verdict on a cancel", f.write(t0+9, cancel(id))[0].Verdict, clock.Refuse)
		r := f.request(t0+9, before.ID)
		r.Target, r.OtherTargets = clock.TargetAMQP, []clock.TargetKind{clock.TargetStream}
		same(t, "left to its target", fmt.Sprint(f.claimRequest(r).Elsewhere),
			fmt.Sprint([]store.Elsewhere{{ID: before.ID, Target: clock.TargetStream}}))
		c := f.claim(t0+9, before.ID).wantRings(before.ID)
		same(t, "ring", fmt.Sprint(c.Rings[0].MessageID(), c.Rings[0].InDoubt(), string(c.Rings[0].Payload)),
			fmt.Sprint(clock.RingID{AlarmID: before.ID, Generation: 1, RingNo: 1}.String(), true, "stays"))
		c.settle(t0+10, everyRing(clock.Confirmed))
		a := f.get(id)
		same(t, "rung again", fmt.Sprint(a.State, a.RingNo, a.InDoubt), fmt.Sprint(before.State, 1, false))
		same(t, "verdict on the ring before", f.write(t0+11, resend(before, 1))[0].Verdict, clock.Refuse)
	}
	same(t, "verdict on an answer", f.write(t0+11, answer(clock.Ack, f.get("ringing"), 1))[0].Verdict, clock.Amend)
}

// testAnswerWhileRinging answers while the claim is open. The first verdict is Wait. The verdict after the settlement
// is definite.
func testAnswerWhileRinging(t *testing.T, f *fixture) {
	f.set(t0, set("held", t0, acknowledgedWithin(time.Minute, 3)), set("other", t0, acknowledgedWithin(time.Minute, 3)))
	before := f.get("held")
	held := f.claim(t0, before.ID).wantRings(before.ID)
	op := answer(clock.Ack, before, 1)
	same(t, "verdict while it is held", f.write(t0+1, op)[0].Verdict, clock.Locked)
	var waited clock.Decision
	var g errgroup.Group
	g.Go(func() (err error) {
		waited, err = f.writeUntilDecided(op)
		return err
	})
	g.Go(func() error {
		_, err := held.trySettle(t0, everyRing(clock.Confirmed))
		return err
	})
	ok(t, g.Wait(), "answer beside its ring")
	same(t, "verdict after it", waited.Verdict, clock.Amend)
	same(t, "state", f.get("held").State, clock.Rung)
}

// writeUntilDecided writes one op until its verdict is not Wait.
func (f *fixture) writeUntilDecided(op clock.Op) (clock.Decision, error) {
	for {
		d, err := f.writeUntilUnlocked(op)
		if err != nil || d.Verdict != clock.Locked {
			return d, err
		}
	}
}

// testRacingAnswers answers one ring from several goroutines at once: one answer is accepted.
func testRacingAnswers(t *testing.T, f *fixture) {
	for round := range 5 {
		before := f.ringingAlarm(fmt.Sprintf("one-%d", round), 9)
		kinds := []clock.AnswerKind{clock.Ack, clock.Release, clock.Bury, clock.Ack, clock.Release, clock.Bury}
		decisions := make([]clock.Decision, len(kinds))
		var g errgroup.Group
		for i, kind := range kinds {
			g.Go(func() (err error) {
				decisions[i], err = f.writeUntilUnlocked(answer(kind, before, 1))
				return err
			})
		}
		ok(t, g.Wait(), "answer")
		accepted := 0
		for i, d := range decisions {
			if d.Verdict == clock.Amend {
				accepted++
				same(t, "answer", f.get(before.BusinessID).Answer, kinds[i])
			} else {
				same(t, "verdict", d.Verdict, clock.Refuse)
			}
		}
		same(t, "accepted", accepted, 1)
	}
}

// testAnswerGroup mixes answers of all kinds with a set and a cancel in one group of many rows.
func testAnswerGroup(t *testing.T, f *fixture) {
	const n = 300
	ids := names("many", n)
	f.set(t0, sets(ids, t0, acknowledgedWithin(time.Minute, 3))...)
	alarms := make([]*clock.Alarm, n)
	claimed := make([]int64, n)
	for i, id := range ids {
		claimed[i] = f.get(id).ID
	}
	f.claim(t0, claimed...).settle(t0, everyRing(clock.Confirmed))
	ops := make([]clock.Op, 0, n+2)
	for i, id := range ids {
		alarms[i] = f.get(id)
		ops = append(ops, answer(clock.AnswerKind(1+i%4), alarms[i], 1))
	}
	ops = append(ops, set("new", t0), cancel("absent"))
	decisions := f.write(t0+9, ops...)
	for i, a := range alarms {
		want := ops[i].Decide(a, t0+9)
		same(t, "verdict", decisions[i].Verdict, clock.Amend)
		want.Alarm.Attempts = nil
		same(t, "alarm", decisions[i].Alarm, want.Alarm)
		f.want(want.Alarm)
		same(t, "attempt", len(f.get(a.BusinessID).Attempts) == 1, want.Attempt != nil)
	}
	same(t, "verdicts on the set and the cancel", fmt.Sprint(decisions[n].Verdict, decisions[n+1].Verdict),
		fmt.Sprint(clock.Create, clock.Refuse))
}

// testUnacknowledged demands an attempt for every ring without an answer, up to the newest clock.MaxAttempts. That
// includes a ring before a confirmed one, and the last ring before the alarm dies.
func testUnacknowledged(t *testing.T, f *fixture) {
	id := f.set(t0, set("never", t0, acknowledgedWithin(time.Minute, 30)),
		set("twice", t0, acknowledgedWithin(time.Minute, 2)))
	now := t0
	var want []clock.Attempt
	for range 26 {
		before := f.get("never")
		c := f.claim(now, id[0]).wantRings(id[0])
		kind := clock.Confirmed
		if before.RingNo%3 == 1 && before.State == clock.Ringing {
			kind = clock.Nacked // adds two attempts at once
		}
		fate := c.settle(now+1, everyRing(kind))[0]
		want = newestAttempts(append(attemptsOf(before, &c.Rings[0], fate, now+1), want...))
		f.wantAttempts("never", want...)
		now = cmp.Or(fate.NextTryTime, now)
	}
	same(t, "attempts", len(want), clock.MaxAttempts)
	same(t, "attempts kept", f.count("ring_attempt"), clock.MaxAttempts)

	f.claim(t0, id[1]).settle(t0, everyRing(clock.Confirmed))
	second := f.claim(t0.Add(time.Minute), id[1])
	second.settle(t0.Add(time.Minute), everyRing(clock.Confirmed))
	end := t0.Add(2 * time.Minute)
	f.claim(end, id[1]).wantRings()
	a := f.get("twice")
	same(t, "state", a.State, clock.Dead)
	same(t, "last attempt", a.Attempts[0], clock.Attempt{
		Generation: 1, RingNo: 2, ClaimID: second.request.ClaimID, Time: end, Outcome: clock.Unacknowledged,
	})
	same(t, "attempts", len(a.Attempts), 2)
}

// testAnswerUnsent ends the repetition of an unacknowledged ring as unsent. The ring can still be answered, and no
// attempt is added.
func testAnswerUnsent(t *testing.T, f *fixture) {
	before := f.ringingAlarm("unsent", 3)
	now := t0.Add(time.Minute)
	f.claim(now, before.ID).settle(now, everyRing(clock.Unsent))
	f.wantAttempts("unsent")
	same(t, "state", f.get("unsent").State, clock.Ringing)
	same(t, "verdict", f.write(now, answer(clock.Ack, before, 1))[0].Verdict, clock.Amend)
}

// testKicked kicks a dead alarm that has used up its rings. It rings once more under the next ring number, even when
// the first claim after the kick is lost.
func testKicked(t *testing.T, f *fixture) {
	before := f.ringingAlarm("kicked", 1)
	end := t0.Add(time.Minute)
	f.claim(end, before.ID).wantRings()
	same(t, "state", f.get("kicked").State, clock.Dead)
	f.set(end, clock.Op{Kick: &clock.Kick{Key: key("kicked")}})
	a := f.get("kicked")
	same(t, "kicked", fmt.Sprint(a.State, a.NextTryTime, a.RingNo, a.FinishedAt, a.LastError),
		fmt.Sprint(clock.Scheduled, end, 1, clock.NoInstant, "not acknowledged after 1 rings"))
	first := f.claim(end, before.ID).wantRings(before.ID)
	if f.timeout > 0 {
		first.unsettled = false // its node dies
		end = end.Add(f.timeout)
		first = f.claim(end, before.ID).wantRings(before.ID)
		same(t, "in doubt", first.Rings[0].InDoubt(), true)
	}
	same(t, "ring no", first.Rings[0].RingNo, 2)
	first.settle(end, everyRing(clock.Confirmed))
	f.claim(end.Add(time.Minute), before.ID).wantRings()
	same(t, "state", f.get("kicked").State, clock.Dead)
	f.set(end, clock.Op{Discard: &clock.Discard{Key: key("kicked")}})
	same(t, "state", f.get("kicked").State, clock.Cancelled)
}

// testKickLate kicks an expired alarm: the kick removes the latest_ring_at that has passed.
func testKickLate(t *testing.T, f *fixture) {
	expired := f.arrange("late", "expired")
	f.set(t0+1, clock.Op{Kick: &clock.Kick{Key: key("late")}})
	same(t, "latest_ring_at", f.get("late").LatestRingAt, clock.NoInstant)
	f.claim(t0+5, expired.ID).wantRings(expired.ID)
}

// testAnswerReports reads answers and unacknowledged rings from the reports.
func testAnswerReports(t *testing.T, f *fixture) {
	s := func(i clock.Instant) string { return i.Time().Format(reportLayout) }
	f.ringingAlarm("silent", 3)
	f.set(t0+5, answer(clock.Bury, f.ringingAlarm("buried", 3), 1),
		answer(clock.Release, f.ringingAlarm("released", 3), 1))
	f.ringingAlarm("waiting", 3)
	f.set(t0, set("once", t0, atMostOnce))
	again := t0.Add(time.Minute)
	f.claim(again, f.get("silent").ID).settle(again, everyRing(clock.Confirmed))
	by := "10.0.0.7 – ö"
	same(t, "alarm_report", f.report(`SELECT business_id, ring_no, answer, answered_by, answered_at, delivery, priority FROM alarm_report
		ORDER BY business_id`), [][]string{
		{"buried", "1", "bury", by, s(t0 + 5), "at_least_once", "3"},
		{"once", "0", "NULL", "NULL", "NULL", "at_most_once", "0"},
		{"released", "1", "release", by, s(t0 + 5), "at_least_once", "3"},
		{"silent", "2", "NULL", "NULL", "NULL", "at_least_once", "3"},
		{"waiting", "1", "NULL", "NULL", "NULL", "at_least_once", "3"},
	})
	same(t, "retry_report", f.report(`SELECT business_id, state, attempts, last_outcome, last_attempt_time, ring_no, answer, answered_by, answered_at
		FROM retry_report ORDER BY business_id`), [][]string{
		{"buried", "dead", "1", "buried", s(t0 + 5), "1", "bury", by, s(t0 + 5)},
		{"released", "scheduled", "1", "released", s(t0 + 5), "1", "release", by, s(t0 + 5)},
		{"silent", "ringing", "1", "unacknowledged", s(again), "2", "NULL", "NULL", "NULL"},
	})
}

// testDueOrderOfPriorities demands that alarms with one due time are ordered by priority, in pages and in claims, even
// after the priority changed.
func testDueOrderOfPriorities(t *testing.T, f *fixture) {
	k := f.together("p0", "p9", "p5", "p5 too", "later", "raised")
	ids := f.set(t0, set(k[0], t0), set(k[1], t0, priority(9)), set(k[2], t0, priority(5)), set(k[3], t0, priority(5)),
		set(k[4], t0+1, priority(9)), set(k[5], t0))
	f.set(t0, set(k[5], t0, priority(7)))
	want := []int64{ids[1], ids[5], ids[2], ids[3], ids[0], ids[4]}
	var due []int64
	for _, d := range f.readDue(f.shards(), store.Position{}, 1) {
		due = append(due, d.ID)
	}
	same(t, "due", due, want)
	c := f.claim(t0+1, ids...).wantRings(want...)
	same(t, "priority", c.Rings[0].Priority, 9)
	ok(t, c.Settler.Release(context.WithoutCancel(t.Context())), "release")
	c.unsettled = false
	r := f.request(t0+1, ids...)
	r.MaxBytes = 1
	f.claimRequest(r).wantRings(ids[1])
}
