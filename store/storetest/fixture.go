package storetest

import (
	"bytes"
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

const (
	app = "shop"
	// t0 is the current time in most tests. It is independent of the wall clock.
	t0 clock.Instant = 1_795_000_000_123
	// claimTimeout is how long a two-phase claim lasts.
	claimTimeout = 10 * time.Second
	// promptTimeout is how long a write may wait for a locked row.
	promptTimeout = 2 * time.Second
	// hangTimeout ends calls that must not wait. Locks are held for a shorter time, so a call that waits for one fails
	// its test before.
	hangTimeout = time.Minute
)

// key returns the key of a business id of app.
func key(id string) clock.Key { return clock.Key{Application: app, BusinessID: id} }

// set returns an op that sets an alarm with plain content. The options change the content.
func set(id string, at clock.Instant, options ...func(*clock.Set)) clock.Op {
	s := &clock.Set{Key: key(id), Content: clock.Content{
		RingAt: at, LatestRingAt: clock.NoInstant, Payload: []byte(`{"id":"` + id + `"}`), PayloadKind: clock.JSON,
		ContentType: "application/json", Retry: clock.DefaultRetryPolicy(), MaxRings: clock.DefaultMaxRings,
	}}
	for _, o := range options {
		o(s)
	}
	return clock.Op{Set: s}
}

func cancel(id string) clock.Op { return clock.Op{Cancel: &clock.Cancel{Key: key(id)}} }

func inApplication(application string) func(*clock.Set) {
	return func(s *clock.Set) { s.Application = application }
}

func latestRingAt(at clock.Instant) func(*clock.Set) {
	return func(s *clock.Set) { s.LatestRingAt = at }
}

func acknowledgedWithin(timeout time.Duration, maxRings int) func(*clock.Set) {
	return func(s *clock.Set) { s.AckTimeout, s.MaxRings = timeout, maxRings }
}

func payload(b []byte) func(*clock.Set) {
	return func(s *clock.Set) {
		s.Payload, s.PayloadKind, s.ContentType = b, clock.Binary, "application/octet-stream"
	}
}

func retryLimit(limit int) func(*clock.Set) {
	return func(s *clock.Set) { s.Retry.Limit = limit }
}

// atMostOnce sets the delivery to at most once.
func atMostOnce(s *clock.Set) { s.Delivery = clock.AtMostOnce }

func priority(n int) func(*clock.Set) {
	return func(s *clock.Set) { s.Priority = n }
}

// named lets the alarm name its target.
func named(target clock.TargetKind) func(*clock.Set) {
	return func(s *clock.Set) { s.Target = target }
}

// toDestination names a destination whose number the settings have given.
func toDestination(target clock.TargetKind, name string, number int) func(*clock.Set) {
	return func(s *clock.Set) {
		s.Target, s.Destination = target, clock.Destination{Name: name, Number: number}
	}
}

// ownReceiver gives a set a receiver of its own, for which the settings have judged it.
func ownReceiver(target clock.TargetKind, destination, fields string) func(*clock.Set) {
	return func(s *clock.Set) {
		toDestination(target, destination, clock.OwnNumber("somewhere"))(s)
		s.Receiver = fields
	}
}

func onlyIf(c clock.Condition) func(*clock.Set) {
	return func(s *clock.Set) { s.If = c }
}

// tryWrite writes ops without waiting for locked rows.
func (f *fixture) tryWrite(now clock.Instant, ops ...clock.Op) ([]clock.Decision, error) {
	ctx, stop := context.WithTimeout(f.t.Context(), hangTimeout)
	defer stop()
	d, err := f.Write(ctx, clock.WriteRequest{Now: now, Ops: ops})
	if err == nil && len(d) != len(ops) {
		err = fmt.Errorf("%d decisions of %d ops", len(d), len(ops))
	}
	return d, err
}

func (f *fixture) write(now clock.Instant, ops ...clock.Op) []clock.Decision {
	f.t.Helper()
	d, err := f.tryWrite(now, ops...)
	ok(f.t, err, "write")
	return d
}

// set writes ops and returns the ids of their alarms. Each op must change its row.
func (f *fixture) set(now clock.Instant, ops ...clock.Op) []int64 {
	f.t.Helper()
	ids := make([]int64, len(ops))
	for i, d := range f.write(now, ops...) {
		if !d.Writes() || d.Alarm.ID == 0 {
			f.t.Fatalf("op %d on %q: %s, id %d, %v", i, ops[i].Key().BusinessID, d.Verdict, d.Alarm.ID, d.Err)
		}
		ids[i] = d.Alarm.ID
	}
	return ids
}

// get returns the alarm of a business id of app.
func (f *fixture) get(id string) *clock.Alarm {
	f.t.Helper()
	a, err := f.Get(f.t.Context(), key(id))
	ok(f.t, err, "get "+id)
	return a
}

// want demands that the stored alarm equals a, apart from the attempts.
func (f *fixture) want(a clock.Alarm) {
	f.t.Helper()
	got, err := f.Get(f.t.Context(), a.Key)
	ok(f.t, err, "get "+a.BusinessID)
	stored := *got
	stored.Attempts, a.Attempts = nil, nil
	same(f.t, "alarm "+a.BusinessID, stored, a)
}

var claimCounter atomic.Int64

// claimID returns a new claim id with the length of real claim ids.
func claimID() string { return fmt.Sprintf("c%025d", claimCounter.Add(1)) }

// request returns a claim request for the ids, with room for all payloads.
func (f *fixture) request(now clock.Instant, ids ...int64) store.ClaimRequest {
	return store.ClaimRequest{IDs: ids, Now: now, ClaimID: claimID(), MaxBytes: 64 << 20, Timeout: f.timeout}
}

// tryClaim claims and checks that the claim has a Settler exactly if it has rings.
func (f *fixture) tryClaim(r store.ClaimRequest) (*claim, error) {
	ctx, stop := context.WithTimeout(f.t.Context(), hangTimeout)
	defer stop()
	c, err := f.Claim(ctx, r)
	if err != nil {
		return nil, err
	}
	if (c.Settler == nil) != (len(c.Rings) == 0) {
		return nil, fmt.Errorf("a claim of %d rings has settler %v", len(c.Rings), c.Settler)
	}
	return &claim{f: f, Claim: c, request: r, unsettled: c.Settler != nil}, nil
}

func (f *fixture) claim(now clock.Instant, ids ...int64) *claim {
	f.t.Helper()
	return f.claimRequest(f.request(now, ids...))
}

func (f *fixture) claimRequest(r store.ClaimRequest) *claim {
	f.t.Helper()
	c, err := f.tryClaim(r)
	ok(f.t, err, "claim")
	f.t.Cleanup(func() {
		if c.unsettled { // a failed test must leave no lock behind
			_ = c.Settler.Release(context.Background())
		}
	})
	return c
}

// claim is a claim and its request.
type claim struct {
	*store.Claim
	f         *fixture
	request   store.ClaimRequest
	unsettled bool
}

// trySettle settles every ring with the outcome that outcomeOf returns.
func (c *claim) trySettle(now clock.Instant, outcomeOf func(r *clock.Ring) clock.Outcome) ([]clock.Fate, error) {
	if !c.unsettled {
		return nil, nil
	}
	c.unsettled = false
	fates := make([]clock.Fate, len(c.Rings))
	for i := range c.Rings {
		fates[i] = clock.FateOf(&c.Rings[i], outcomeOf(&c.Rings[i]), now)
	}
	return fates, c.Settler.Settle(c.f.t.Context(), now, fates)
}

func (c *claim) settle(now clock.Instant, outcomeOf func(r *clock.Ring) clock.Outcome) []clock.Fate {
	c.f.t.Helper()
	fates, err := c.trySettle(now, outcomeOf)
	ok(c.f.t, err, "settle")
	return fates
}

func (c *claim) release() {
	c.f.t.Helper()
	c.unsettled = false
	ok(c.f.t, c.Settler.Release(c.f.t.Context()), "release")
}

// wantRings demands rings of exactly these ids, in this order.
func (c *claim) wantRings(ids ...int64) *claim {
	c.f.t.Helper()
	same(c.f.t, "rings of the claim", c.ids(), append([]int64{}, ids...))
	return c
}

func (c *claim) ids() []int64 {
	ids := make([]int64, len(c.Rings))
	for i := range c.Rings {
		ids[i] = c.Rings[i].AlarmID
	}
	return ids
}

// everyRing returns a function that gives every ring the same outcome.
func everyRing(k clock.OutcomeKind) func(*clock.Ring) clock.Outcome {
	o := clock.Outcome{Kind: k}
	if !leavesNoAttempt(k) {
		o.Reason = "the reason of " + k.String()
	}
	return func(*clock.Ring) clock.Outcome { return o }
}

// afterRing returns alarm a after its ring has had this fate.
func afterRing(a clock.Alarm, f clock.Fate) clock.Alarm {
	a.RingRow = f.RingRow
	return a
}

// afterClaim returns alarm a after a committed claim has taken it.
func afterClaim(a clock.Alarm, r *store.ClaimRequest) clock.Alarm {
	ring := ringOf(a, r)
	a.RingRow = r.RowAfterClaim(&ring)
	return a
}

// same demands that got equals want, and names the fields that differ.
func same[T any](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if d := diff(got, want); d != "" {
		tb.Fatalf("%s: %s", what, d)
	}
}

// diff describes the differences of two values; "" means none. A nil slice equals an empty one.
func diff(got, want any) string {
	var b strings.Builder
	diffValue(&b, "", reflect.ValueOf(got), reflect.ValueOf(want))
	return b.String()
}

func diffValue(b *strings.Builder, path string, got, want reflect.Value) {
	switch {
	case got.Kind() == reflect.Struct:
		for i := range got.NumField() {
			diffValue(b, path+"."+got.Type().Field(i).Name, got.Field(i), want.Field(i))
		}
	case got.Kind() == reflect.Slice && got.Type().Elem().Kind() == reflect.Uint8:
		if !bytes.Equal(got.Bytes(), want.Bytes()) {
			fmt.Fprintf(b, "%s %d bytes %.40q, want %d bytes %.40q; ", path, got.Len(), got.Bytes(), want.Len(),
				want.Bytes())
		}
	case got.Kind() == reflect.Slice && got.Len() == want.Len():
		for i := range got.Len() {
			diffValue(b, fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		fmt.Fprintf(b, "%s %v, want %v; ", path, got.Interface(), want.Interface())
	}
}

// sorted returns the ids in ascending order.
func sorted(ids []int64) []int64 {
	s := slices.Clone(ids)
	slices.Sort(s)
	return s
}

// names returns n business ids with the prefix.
func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return ids
}

// sets returns a set for each business id.
func sets(ids []string, at clock.Instant, options ...func(*clock.Set)) []clock.Op {
	ops := make([]clock.Op, len(ids))
	for i, id := range ids {
		ops[i] = set(id, at, options...)
	}
	return ops
}

// together returns business ids that begin with the given ones, and whose keys have one shard. A distributed database
// keeps the rows of one shard on one server, and writes and claims them in one transaction.
func (f *fixture) together(businessIDs ...string) []string {
	found := make([]string, len(businessIDs))
	for i, id := range businessIDs {
		found[i] = id
		for n := 0; key(found[i]).Shard(f.ShardCount()) != key(businessIDs[0]).Shard(f.ShardCount()); n++ {
			found[i] = fmt.Sprintf("%s+%d", id, n)
		}
	}
	return found
}

// shards returns all shards of the store.
func (f *fixture) shards() []int { return store.AllShards(f.ShardCount()) }
