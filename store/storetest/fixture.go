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
	// t0 is "now" in most tests. The wall clock has nothing to do with it.
	t0 clock.Instant = 1_795_000_000_123
	// defaultLease is how long a two-phase claim lasts.
	defaultLease = 10 * time.Second
	// prompt is what an answer may take that must not wait for anybody: far below every lock timeout.
	prompt = 2 * time.Second
)

// key returns the key of a business id of app.
func key(id string) clock.Key { return clock.Key{Application: app, BusinessID: id} }

// set asks for an alarm with plain content, changed by the options.
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

func in(application string) func(*clock.Set) {
	return func(s *clock.Set) { s.Application = application }
}

func latest(at clock.Instant) func(*clock.Set) {
	return func(s *clock.Set) { s.LatestRingAt = at }
}

func acknowledged(timeout time.Duration, maxRings int) func(*clock.Set) {
	return func(s *clock.Set) { s.AckTimeout, s.MaxRings = timeout, maxRings }
}

func payload(b []byte) func(*clock.Set) {
	return func(s *clock.Set) {
		s.Payload, s.PayloadKind, s.ContentType = b, clock.Binary, "application/octet-stream"
	}
}

func retries(limit int) func(*clock.Set) {
	return func(s *clock.Set) { s.Retry.Limit = limit }
}

// atMostOnce asks for one delivery, or none.
func atMostOnce(s *clock.Set) { s.Delivery = clock.AtMostOnce }

func priority(n int) func(*clock.Set) {
	return func(s *clock.Set) { s.Priority = n }
}

func given(c clock.Condition) func(*clock.Set) {
	return func(s *clock.Set) { s.If = c }
}

// tryWrite writes ops without waiting for locked rows, and must be answered promptly.
func (f *fixture) tryWrite(now clock.Instant, ops ...clock.Op) ([]clock.Decision, error) {
	ctx, stop := context.WithTimeout(f.t.Context(), 10*prompt)
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

// set writes ops, all of which must change their row, and returns the ids.
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

// want compares the stored alarm, but for its attempts, with a.
func (f *fixture) want(a clock.Alarm) {
	f.t.Helper()
	got, err := f.Get(f.t.Context(), a.Key)
	ok(f.t, err, "get "+a.BusinessID)
	stored := *got
	stored.Attempts, a.Attempts = nil, nil
	same(f.t, "alarm "+a.BusinessID, stored, a)
}

// pause does what the service's pause does, which has no call in the contract yet.
func (f *fixture) pause(id int64) {
	f.exec("UPDATE alarm SET state = 7, next_try_time = NULL WHERE id = %d", id)
}

var claims atomic.Int64

// claimID returns a fresh one, of the length that claims have.
func claimID() string { return fmt.Sprintf("c%025d", claims.Add(1)) }

// request asks for ids with room for all.
func (f *fixture) request(now clock.Instant, ids ...int64) store.ClaimRequest {
	return store.ClaimRequest{IDs: ids, Now: now, ClaimID: claimID(), MaxBytes: 64 << 20, Lease: f.lease}
}

// tryClaim claims, and must be answered promptly.
func (f *fixture) tryClaim(r store.ClaimRequest) (*claim, error) {
	ctx, stop := context.WithTimeout(f.t.Context(), 10*prompt)
	defer stop()
	c, err := f.Claim(ctx, r)
	if err != nil {
		return nil, err
	}
	if (c.Settler == nil) != (len(c.Rings) == 0) {
		return nil, fmt.Errorf("a claim of %d rings has settler %v", len(c.Rings), c.Settler)
	}
	return &claim{f: f, Claim: c, request: r, open: c.Settler != nil}, nil
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
		if c.open { // so that a failed test leaves no lock behind
			_ = c.Settler.Release(context.Background())
		}
	})
	return c
}

// claim is a claim with the means to end it.
type claim struct {
	*store.Claim
	f       *fixture
	request store.ClaimRequest
	open    bool
}

// trySettle ends every ring with the outcome that of gives it.
func (c *claim) trySettle(now clock.Instant, of func(r *clock.Ring) clock.Outcome) ([]clock.Fate, error) {
	if !c.open {
		return nil, nil
	}
	c.open = false
	fates := make([]clock.Fate, len(c.Rings))
	for i := range c.Rings {
		fates[i] = clock.Settle(&c.Rings[i], of(&c.Rings[i]), now)
	}
	return fates, c.Settler.Settle(c.f.t.Context(), now, fates)
}

func (c *claim) settle(now clock.Instant, of func(r *clock.Ring) clock.Outcome) []clock.Fate {
	c.f.t.Helper()
	fates, err := c.trySettle(now, of)
	ok(c.f.t, err, "settle")
	return fates
}

func (c *claim) release() {
	c.f.t.Helper()
	c.open = false
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

// all gives every ring the same outcome.
func all(k clock.OutcomeKind) func(*clock.Ring) clock.Outcome {
	o := clock.Outcome{Kind: k}
	if !silent(k) {
		o.Reason = "the reason of " + k.String()
	}
	return func(*clock.Ring) clock.Outcome { return o }
}

// rung returns what a confirmed ring makes of alarm a, claimed at now.
func rung(a clock.Alarm, c *claim) clock.Alarm {
	now := c.request.Now
	a.State, a.NextTryTime, a.FinishedAt, a.RungAt = clock.Rung, clock.NoInstant, now, now
	if a.AckTimeout > 0 {
		a.State, a.NextTryTime, a.FinishedAt = clock.Ringing, now.Add(a.AckTimeout), clock.NoInstant
	}
	a.RingNo++
	a.ClaimID, a.InDoubt = c.request.ClaimID, false
	return a
}

// failed returns what an unconfirmed fate makes of alarm a, settled at now.
func failed(a clock.Alarm, f clock.Fate, now clock.Instant) clock.Alarm {
	if !unacknowledged(&a) || f.Outcome.Kind != clock.Unsent && f.Outcome.Kind != clock.Untaken { // which still waits for its answer
		a.State = f.State
	}
	a.NextTryTime, a.RetryTimes, a.InDoubt, a.FinishedAt = f.NextTryTime, f.RetryTimes, f.InDoubt, f.FinishedAt
	if f.LastError != "" {
		a.LastError = f.LastError
	}
	a.UpdateTime = now
	return a
}

// unacknowledged reports whether the alarm is a confirmed ring that nobody answered.
func unacknowledged(a *clock.Alarm) bool {
	return a.State == clock.Ringing && a.RungAt != clock.NoInstant
}

// same demands that got equals want, and tells the fields that differ.
func same[T any](tb testing.TB, what string, got, want T) {
	tb.Helper()
	if d := diff(got, want); d != "" {
		tb.Fatalf("%s: %s", what, d)
	}
}

// diff tells where two values differ, "" where they do not. A nil slice is an empty one.
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
			fmt.Fprintf(b, "%s %d bytes %.40q, want %d bytes %.40q; ", path, got.Len(), got.Bytes(), want.Len(), want.Bytes())
		}
	case got.Kind() == reflect.Slice && got.Len() == want.Len():
		for i := range got.Len() {
			diffValue(b, fmt.Sprintf("%s[%d]", path, i), got.Index(i), want.Index(i))
		}
	case !reflect.DeepEqual(got.Interface(), want.Interface()):
		fmt.Fprintf(b, "%s %v, want %v; ", path, got.Interface(), want.Interface())
	}
}

// sorted returns the ids in order.
func sorted(ids []int64) []int64 {
	s := slices.Clone(ids)
	slices.Sort(s)
	return s
}

// names makes n business ids.
func names(prefix string, n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf("%s-%05d", prefix, i)
	}
	return ids
}

// sets makes a set of each business id.
func sets(ids []string, at clock.Instant, options ...func(*clock.Set)) []clock.Op {
	ops := make([]clock.Op, len(ids))
	for i, id := range ids {
		ops[i] = set(id, at, options...)
	}
	return ops
}

// shards returns all shards of the store.
func (f *fixture) shards() []int {
	n := make([]int, f.ShardCount())
	for i := range n {
		n[i] = i
	}
	return n
}
