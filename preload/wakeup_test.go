package preload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Decoded wake-ups have all rows that were encoded, in their order. No wake-up exceeds maxWakeBytes or has a line break.
func TestWakeUpsCarryAllRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := rapid.IntRange(0, 1023).Draw(t, "shard")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.Due {
			return store.Due{
				ID:          rapid.Int64Range(1, math.MaxInt64).Draw(t, "id"),
				NextTryTime: clock.Instant(rapid.Int64Range(0, int64(clock.MaxInstant)).Draw(t, "due")),
				Rank:        rapid.IntRange(0, 9).Draw(t, "rank"), Shard: shard,
				Application: strings.Repeat("x", rapid.IntRange(1, clock.MaxApplication).Draw(t, "application")),
			}
		}), 0, 200).Draw(t, "rows")
		var out []store.Due
		for _, body := range encodeWakes(shard, rows) {
			if len(body) > maxWakeBytes || bytes.ContainsAny(body, "\n\x00") {
				t.Fatalf("%d bytes: %q", len(body), body)
			}
			more, err := decodeWake(body)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, more...)
		}
		if !slices.Equal(rows, out) {
			t.Fatalf("%v became %v", rows, out)
		}
	})
	longest := store.Due{ID: math.MaxInt64, NextTryTime: clock.MaxInstant, Rank: 9, Shard: 1 << 20, Application: strings.Repeat("x", 64)}
	if bodies := encodeWakes(1<<20, slices.Repeat([]store.Due{longest}, maxWakeRows)); len(bodies) != 1 || len(bodies[0]) > maxWakeBytes {
		t.Errorf("%d wake-ups, the first of %d bytes", len(bodies), len(bodies[0]))
	}
}

var badWakes = []string{
	``, `{}`, `null`, `[]`, `7`, `{"shard":1}`, `{"shard":1,"rows":[]}`, `{"shard":1,"rows":null}`,
	`{"shard":-1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":0,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":-1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":10,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":-1,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":""}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a b"}]}`,
	`{"shard":1,"rows":[{"id":1.5,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":99999999999999999999,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}],"more":1}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a","more":1}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}{}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}` + strings.Repeat(" ", maxWakeBytes),
}

const goodWake = `{"shard":1,"rows":[{"id":1,"due":1000500,"rank":0,"app":"a"}]}`

func TestInvalidWakeUpsAreRejected(t *testing.T) {
	if _, err := decodeWake([]byte(goodWake)); err != nil {
		t.Error(err)
	}
	for _, body := range badWakes {
		if rows, err := decodeWake([]byte(body)); err == nil {
			t.Errorf("%.100s: %v", body, rows)
		}
	}
}

// The rows of every wake-up that can be decoded are the same after they are encoded and decoded again.
func FuzzDecodeWake(f *testing.F) {
	for _, body := range append(badWakes, goodWake) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decodeWake(body)
		if err != nil {
			return
		}
		var again []store.Due
		for _, body := range encodeWakes(rows[0].Shard, rows) {
			more, err := decodeWake(body)
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			again = append(again, more...)
		}
		if !slices.Equal(rows, again) {
			t.Fatalf("%q: %v, then %v", body, rows, again)
		}
	})
}

// recordingCourier is a Courier that records the wake-ups.
type recordingCourier struct {
	mu     sync.Mutex
	bodies map[int][][]byte
}

func (p *recordingCourier) Send(shard int, body []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bodies == nil {
		p.bodies = map[int][][]byte{}
	}
	p.bodies[shard] = append(p.bodies[shard], body)
}

// take returns the ids in the recorded wake-ups, sorted, and forgets the wake-ups.
func (p *recordingCourier) take(t *testing.T) (ids []int64) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for shard, bodies := range p.bodies {
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
	p.bodies = nil
	slices.Sort(ids)
	return ids
}

// A node sends one wake-up with each row that it commits and another node rings, if the row is due before the window's end. It sends
// none for rows that it rings itself. Rows of received wake-ups come into the heap if the node rings them.
func TestWakeUpsGoToNodesThatRingTheRows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &fakeOwnership{shards: []int{0}, changed: make(chan struct{})}
		r := newRig(t, testConfig(), 1000, o)
		var sent recordingCourier
		r.SendBy(&sent)
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = r.Run(ctx) })
		synctest.Wait()
		want := func(what string, want ...int64) {
			t.Helper()
			synctest.Wait()
			if got := sent.take(t); !slices.Equal(got, want) {
				t.Errorf("%s: wake-ups with %v, want %v", what, got, want)
			}
		}
		r.write(3, 1_000_500)
		want("own shard")
		r.write(1, 1_000_500)
		r.write(2, 1_010_999) // within the window plus wakeMargin
		r.write(4, 1_011_000)
		want("shards of other nodes", 1, 2)
		r.write(1, clock.NoInstant)
		want("cancelled")
		r.Offer([]store.Due{{ID: 5, Shard: 2, NextTryTime: 1_000_700, Application: "a"}, {ID: 6, NextTryTime: 1_000_700, Application: "a"}})
		want("due again", 5)
		o.change(func() { o.rungElsewhere = "a" })
		r.Offer([]store.Due{{ID: 6, NextTryTime: 1_000_800, Application: "a"}})
		want("own shard, rung elsewhere", 6)
		o.change(func() { o.rungElsewhere = "" })
		synctest.Wait()
		for _, shard := range []int{0, 1} {
			if err := r.Receive(fmt.Appendf(nil, `{"shard":%d,"rows":[{"id":%d,"due":1000500,"rank":3,"app":"b"}]}`, shard, 300+shard)); err != nil {
				t.Error(err)
			}
		}
		want("received")
		if d, inHeap := r.heap.get(300); !inHeap || d.Rank != 3 || d.NextTryTime != 1_000_500 {
			t.Errorf("the received row is %+v, in heap: %t", d, inHeap)
		}
		if _, inHeap := r.heap.get(301); inHeap {
			t.Error("a received row of another node's shard is in the heap")
		}
		if err := r.Receive([]byte("?")); err == nil {
			t.Error("Receive accepts an invalid wake-up")
		}
		if n := counter(t, r.reg, "clockd_preload_wakes_received_total"); n != 1 {
			t.Errorf("%v rows received", n)
		}
		if n := counter(t, r.reg, "clockd_preload_wakes_sent_total"); n != 4 {
			t.Errorf("%v rows sent", n)
		}
		cancel()
		running.Wait()
	})
}

// While the sender does not run, rows beyond maxUnsent are dropped and counted.
func TestUnsentRowsAreBounded(t *testing.T) {
	r := newRig(t, testConfig(), 1000, AllShards(1))
	s := newSender(&recordingCourier{}, r.metrics)
	for range 3 {
		s.push(make([]store.Due, maxUnsent/2))
	}
	if s.count != maxUnsent || counter(t, r.reg, "clockd_preload_wakes_dropped_total") != maxUnsent/2 {
		t.Errorf("%d rows wait, %v dropped", s.count, counter(t, r.reg, "clockd_preload_wakes_dropped_total"))
	}
}

// fakeNotifier passes notices to one listener at once. While it is down, its calls fail.
type fakeNotifier struct {
	mu      sync.Mutex
	notices []string
	hear    chan string
	broken  chan struct{} // closed: the connection fails
	down    bool
	calls   int
}

var errNotifier = errors.New("the notifier fails")

func (f *fakeNotifier) Notify(_ context.Context, bodies []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	if f.down {
		return errNotifier
	}
	for _, body := range bodies {
		if len(body) > store.MaxNotice {
			return fmt.Errorf("a notice of %d bytes", len(body))
		}
		f.notices = append(f.notices, body)
		f.hear <- body
	}
	return nil
}

func (f *fakeNotifier) Listen(ctx context.Context, ready func(), heard func(string)) error {
	f.mu.Lock()
	down, broken := f.down, f.broken
	f.mu.Unlock()
	if down {
		return errNotifier
	}
	ready()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-broken:
			return errNotifier
		case body := <-f.hear:
			heard(body)
		}
	}
}

func (f *fakeNotifier) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down = down; down {
		close(f.broken)
		f.broken = make(chan struct{})
	}
}

// Wake-ups go together in as few notices as possible, and each is heard. While posts fail, wake-ups are dropped, and posts and connections
// become rarer. After the failure missed is called, and wake-ups are heard again.
func TestBulletinSurvivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNotifier{hear: make(chan string, 1000), broken: make(chan struct{})}
		var mu sync.Mutex
		var heard, missed int
		reg := prometheus.NewRegistry()
		b := NewBulletin(f, func(body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if _, err := decodeWake(body); err != nil {
				t.Error(err)
			}
			heard++
		}, func() { missed++ }, slog.New(slog.DiscardHandler), reg)
		body := []byte(goodWake)
		perNotice := (store.MaxNotice + 1) / (len(body) + 1)
		for range 2*perNotice + 1 {
			b.Send(1, body)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = b.Run(ctx) })
		synctest.Wait()
		if len(f.notices) != 3 || f.calls != 1 || heard != 2*perNotice+1 || missed != 1 {
			t.Errorf("%d notices in %d posts, %d of %d heard, missed %d times", len(f.notices), f.calls, heard, 2*perNotice+1, missed)
		}
		f.calls, heard = 0, 0
		f.set(true)
		for range 600 {
			b.Send(1, body)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		if f.calls < 12 || f.calls > 30 || heard != 0 {
			t.Errorf("%d posts in a minute of failure, %d heard", f.calls, heard)
		}
		f.set(false)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if missed != 2 {
			t.Errorf("missed %d times", missed)
		}
		heard = 0
		b.Send(1, body)
		synctest.Wait()
		if heard != 1 {
			t.Errorf("%d heard after the failure", heard)
		}
		if n := counter(t, reg, "clockd_preload_notices_dropped_total"); n < 500 || n > 600 {
			t.Errorf("%v dropped", n)
		}
		cancel()
		running.Wait()
	})
}

func TestBulletinQueueIsBounded(t *testing.T) {
	reg := prometheus.NewRegistry()
	b := NewBulletin(&fakeNotifier{}, nil, nil, slog.New(slog.DiscardHandler), reg)
	for range 1000 {
		b.Send(1, make([]byte, store.MaxNotice))
	}
	if n := counter(t, reg, "clockd_preload_notices_dropped_total"); n < 800 || b.bytes > maxWaitingBytes {
		t.Errorf("%d bytes wait, %v wake-ups dropped", b.bytes, n)
	}
}
