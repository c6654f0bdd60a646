package quota

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const shards = 4

// table is a database with pending alarms.
type table struct {
	mu      sync.Mutex
	alarms  map[clock.Key]bool
	limited []string
	down    bool
	asked   int
}

func newTable(limited ...string) *table {
	return &table{alarms: map[clock.Key]bool{}, limited: limited}
}

func (b *table) count(_ context.Context, shard int) (map[string]int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asked++
	if b.down {
		return nil, errors.New("down")
	}
	counts := map[string]int64{}
	for key := range b.alarms {
		if key.Shard(shards) == shard {
			counts[key.Application]++
		}
	}
	return counts, nil
}

// put makes an alarm pending, or not.
func (b *table) put(key clock.Key, pending bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if delete(b.alarms, key); pending {
		b.alarms[key] = true
	}
}

func (b *table) keeper(log *slog.Logger) *Keeper {
	return New(Deps{
		Shards: shards, Count: b.count, Log: log, Registerer: prometheus.NewRegistry(),
		Limited: func() []string {
			b.mu.Lock()
			defer b.mu.Unlock()
			return b.limited
		},
	})
}

func key(application string, n int) clock.Key {
	return clock.Key{Application: application, BusinessID: fmt.Sprint(n)}
}

// set sets an alarm as the service does. It returns the code of the refusal.
func (b *table) set(k *Keeper, key clock.Key, q clock.Quotas) (code string, wait time.Duration) {
	admission, err := k.Admit(&clock.Op{Set: &clock.Set{Key: key}}, &q)
	if refused, is := errors.AsType[*clock.Error](err); is {
		return refused.Code, refused.RetryAfter
	}
	if admission.Room == nil {
		return "", 0
	}
	b.mu.Lock()
	exists := b.alarms[key]
	b.mu.Unlock()
	decision := &clock.Decision{Verdict: clock.Create}
	full := admission.Room.Take() // the writer first tries to insert the row
	switch {
	case exists:
		admission.Room.GiveBack()
		decision.Verdict = clock.Replace
	case full != nil:
		decision.Verdict, code = clock.Refuse, full.Code
	default:
		b.put(key, true)
	}
	admission.Ended(decision)
	return code, 0
}

// running runs a test with a running Keeper.
func running(t *testing.T, b *table, test func(t *testing.T, k *Keeper, log *strings.Builder)) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		k := b.keeper(slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() { _ = k.Run(ctx) })
		test(t, k, &log)
		stop()
		loop.Wait()
	})
}

// round is longer than a round over all shards.
const round = leastRound + time.Second

// Each application may set as many alarms a second as its quota says, and so many at once. Cancels are not counted.
func TestSetsASecondAreLimited(t *testing.T) {
	b := newTable()
	running(t, b, func(t *testing.T, k *Keeper, _ *strings.Builder) {
		quotas := clock.Quotas{SetsPerSecond: 3}
		for second := range 3 {
			for n := range 5 {
				code, wait := b.set(k, key("shop", n), quotas)
				if (code == clock.CodeQuotaSets) != (n >= 3) || (wait > 0) != (n >= 3) || wait > time.Second/3+1 {
					t.Errorf("second %d, set %d: %q, wait %s", second, n, code, wait)
				}
			}
			if _, err := k.Admit(&clock.Op{Cancel: &clock.Cancel{Key: key("shop", 1)}}, &quotas); err != nil {
				t.Errorf("a cancel: %v", err)
			}
			if code, _ := b.set(k, key("bank", second), quotas); code != "" {
				t.Errorf("another application: %s", code)
			}
			time.Sleep(time.Second)
		}
		quotas.SetsPerSecond = 5
		for n := range 6 {
			if code, _ := b.set(k, key("shop", n), quotas); (code != "") != (n == 5) {
				t.Errorf("with a larger quota, set %d: %q", n, code)
			}
		}
	})
}

// An application with as many alarms as its quota adds no further one, changes the ones it has, and adds others when
// alarms have been cancelled or have rung.
func TestPendingAlarmsAreLimited(t *testing.T) {
	b := newTable("shop")
	for n := range 7 {
		b.put(key("shop", n), true) // from before
		b.put(key("bank", n), true)
	}
	running(t, b, func(t *testing.T, k *Keeper, _ *strings.Builder) {
		quotas := clock.Quotas{PendingAlarms: 10}
		set := func(what string, n int, want string) {
			t.Helper()
			if code, _ := b.set(k, key("shop", n), quotas); code != want {
				t.Errorf("%s: %q, want %q", what, code, want)
			}
		}
		time.Sleep(round)
		set("the eighth", 7, "")
		set("the ninth", 8, "")
		set("the tenth", 9, "")
		set("the eleventh", 10, clock.CodeQuotaPending)
		set("the first again", 0, "")
		time.Sleep(round)
		set("the eleventh after a round", 10, clock.CodeQuotaPending)
		if n := testutil.ToFloat64(k.gauge.WithLabelValues("shop")); n != 10 {
			t.Errorf("the gauge has %g", n)
		}

		admission, err := k.Admit(&clock.Op{Cancel: &clock.Cancel{Key: key("shop", 3)}}, &quotas)
		if err != nil {
			t.Fatal(err)
		}
		b.put(key("shop", 3), false)
		admission.Ended(&clock.Decision{Verdict: clock.Disarm, Unscheduled: true})
		set("after a cancel", 10, "")
		set("after a cancel and a set", 11, clock.CodeQuotaPending)

		b.put(key("shop", 4), false) // it rings
		b.put(key("shop", 5), false)
		time.Sleep(round)
		set("after a ring", 11, "")

		admission, err = k.Admit(&clock.Op{Cancel: &clock.Cancel{Key: key("shop", 99)}}, &quotas)
		if err != nil {
			t.Fatal(err)
		}
		admission.Ended(&clock.Decision{Verdict: clock.Disarm}) // a paused alarm did not count
		held, err := k.Admit(&clock.Op{Set: &clock.Set{Key: key("shop", 12)}}, &quotas)
		if err != nil || held.Room.Take() != nil || held.Room.Take() != nil {
			t.Fatal("no room", err)
		}
		set("beside a set under way", 13, clock.CodeQuotaPending)
		set("a change beside a set under way", 0, "")
		held.Ended(&clock.Decision{Verdict: clock.Refuse})
		set("after its end", 13, "")
		set("with a smaller quota", 14, clock.CodeQuotaPending)
		quotas.PendingAlarms = 11
		set("with a larger quota", 14, "")
	})
}

// Before the first round nothing is refused. After a time without the quota there is a first round again.
func TestUnknownNumbersRefuseNothing(t *testing.T) {
	b := newTable("shop")
	b.down = true
	for n := range 9 {
		b.put(key("shop", n), true)
	}
	running(t, b, func(t *testing.T, k *Keeper, log *strings.Builder) {
		quotas := clock.Quotas{PendingAlarms: 3}
		set := func(want string) {
			t.Helper()
			if code, _ := b.set(k, key("shop", 100), quotas); code != want {
				t.Errorf("%q, want %q", code, want)
			}
			b.put(key("shop", 100), false)
		}
		change := func(down bool, limited ...string) {
			b.mu.Lock()
			b.down, b.limited = down, limited
			b.mu.Unlock()
		}
		time.Sleep(time.Minute)
		set("")
		if n := strings.Count(log.String(), "pending alarms are not counted"); n != 1 {
			t.Errorf("%d lines in the log:\n%s", n, log)
		}
		change(false, "shop")
		time.Sleep(round)
		set(clock.CodeQuotaPending)
		change(true, "shop")
		time.Sleep(time.Minute)
		set(clock.CodeQuotaPending) // the last counts
		change(false)
		time.Sleep(round)
		b.mu.Lock()
		asked := b.asked
		b.mu.Unlock()
		time.Sleep(time.Minute)
		b.mu.Lock()
		if b.asked != asked {
			t.Errorf("%d counts without a quota", b.asked-asked)
		}
		b.mu.Unlock()
		set("")
		if n := testutil.CollectAndCount(k.gauge); n != 0 {
			t.Errorf("%d gauges without a quota", n)
		}
		change(false, "shop")
		time.Sleep(round)
		set(clock.CodeQuotaPending)
	})
}

// Without cancels, and with one node, the estimate is never below the alarms that are stored. Once all verdicts are
// known and all shards are counted again, it is exact.
func TestEstimateFollowsTheDatabase(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newTable("shop")
		k := b.keeper(slog.New(slog.DiscardHandler))
		quotas := clock.Quotas{PendingAlarms: 1000}
		var ended []func()
		shard, next, counting := 0, 0, false
		var counts map[string]int64
		finish := func() {
			k.end(shard, counts)
			shard, counting = (shard+1)%shards, false
		}
		for range rapid.IntRange(1, 200).Draw(rt, "steps") {
			switch rapid.SampledFrom([]string{"set", "verdict", "begin", "count", "end"}).Draw(rt, "step") {
			case "set":
				next++
				admission, err := k.Admit(&clock.Op{Set: &clock.Set{Key: key("shop", next)}}, &quotas)
				if err != nil {
					rt.Fatal(err)
				}
				if admission.Room.Take() != nil {
					rt.Fatal("no room")
				}
				stored := rapid.Bool().Draw(rt, "stored")
				b.put(key("shop", next), stored)
				decision := &clock.Decision{Verdict: clock.Refuse}
				if stored {
					decision.Verdict = clock.Create
				}
				if rapid.Bool().Draw(rt, "changed") { // the first try found a row
					admission.Room.GiveBack()
					admission.Room.Take()
				}
				ended = append(ended, func() { admission.Ended(decision) })
			case "verdict":
				if len(ended) > 0 {
					i := rapid.IntRange(0, len(ended)-1).Draw(rt, "which")
					ended[i]()
					ended = append(ended[:i], ended[i+1:]...)
				}
			case "begin":
				if !counting {
					k.begin(shard)
					counting, counts = true, nil
				}
			case "count":
				if counting && counts == nil {
					counts, _ = b.count(context.Background(), shard)
				}
			case "end":
				if counts != nil && counting {
					finish()
				}
			}
			if p := k.of("shop").pending; p != nil && p.sum+p.taken < int64(len(b.alarms)) {
				rt.Fatalf("estimated are %d and %d under way, stored are %d", p.sum, p.taken, len(b.alarms))
			}
		}
		for _, end := range ended {
			end()
		}
		if counting {
			if counts == nil {
				counts, _ = b.count(context.Background(), shard)
			}
			finish()
		}
		for range shards {
			k.begin(shard)
			counts, _ = b.count(context.Background(), shard)
			finish()
		}
		if p := k.of("shop").pending; p.sum != int64(len(b.alarms)) || p.taken != 0 {
			rt.Fatalf("estimated are %d and %d under way, stored are %d", p.sum, p.taken, len(b.alarms))
		}
	})
}

// BenchmarkAdmit measures what quotas add to a set.
func BenchmarkAdmit(b *testing.B) {
	const never = 1 << 30
	created := &clock.Decision{Verdict: clock.Create}
	for name, quotas := range map[string]clock.Quotas{"pending": {PendingAlarms: never}, "sets": {SetsPerSecond: never}} {
		b.Run(name, func(b *testing.B) {
			k := newTable("shop").keeper(slog.New(slog.DiscardHandler))
			op := &clock.Op{Set: &clock.Set{Key: key("shop", 1)}}
			for b.Loop() {
				admission, err := k.Admit(op, &quotas)
				if err != nil {
					b.Fatal(err)
				}
				if admission.Room != nil {
					admission.Room.Take()
					admission.Ended(created)
				}
			}
		})
	}
}
