package access

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// limitedBy demands a refusal with a wait.
func limitedBy(t *testing.T, what string, err error, wait time.Duration) {
	t.Helper()
	e, is := errors.AsType[*clock.Error](err)
	if !is || !errors.Is(err, clock.ErrLimited) || e.RetryAfter < wait-time.Millisecond ||
		e.RetryAfter > wait+time.Millisecond {
		t.Errorf("%s: %v, want a wait of %s", what, err, wait)
	}
}

func TestTokenSpendsOperationsAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		ci, other := source.add(t, "ci", Reader, "*"), source.add(t, "other", Reader, "*")
		w := watch(t, Config{Rate: 100}, source)
		find := func(text Text) *Caller {
			t.Helper()
			c, err := w.Caller(t.Context(), bearer(text))
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		if err := find(ci).Spend(LeastBurst); err != nil {
			t.Errorf("a whole batch: %v", err)
		}
		limitedBy(t, "one more", find(ci).Spend(1), 10*time.Millisecond)
		limitedBy(t, "a batch more", find(ci).Spend(50), 500*time.Millisecond)
		source.change(func() {})
		if err := w.readAll(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		limitedBy(t, "after the tokens were read again", find(ci).Spend(1), 10*time.Millisecond)
		if err := find(other).Spend(1); err != nil {
			t.Errorf("another token: %v", err)
		}
		begun := time.Now()
		for range 10 {
			if err := find(ci).Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begun); took != 100*time.Millisecond {
			t.Errorf("ten operations took %s", took)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if err := find(ci).Wait(ended); err == nil {
			t.Error("a wait goes on after its context")
		}
		time.Sleep(time.Second)
		if err := find(ci).Spend(100); err != nil {
			t.Errorf("after a second: %v", err)
		}
		if err := errors.Join(Anyone.Spend(1e6), Anyone.Wait(t.Context())); err != nil {
			t.Errorf("anyone: %v", err)
		}
	})
}

func TestAddressWithFailuresIsTurnedAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source := &fakeSource{}
		ci := source.add(t, "ci", Reader, "*")
		w := watch(t, Config{}, source)
		attacker, neighbour := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
		from := func(address netip.Addr, text Text) error {
			r := bearer(text)
			r.Address = address
			_, err := w.Caller(t.Context(), r)
			return err
		}
		for range failureBurst {
			if err := from(attacker, NewText()); !errors.Is(err, clock.ErrUnauthenticated) {
				t.Fatal(err)
			}
		}
		limitedBy(t, "one failure more", from(attacker, NewText()), failureEvery)
		if err := from(attacker, ci); err != nil {
			t.Errorf("a valid token of the same address: %v", err)
		}
		if err := from(neighbour, NewText()); !errors.Is(err, clock.ErrUnauthenticated) {
			t.Errorf("another address: %v", err)
		}
		time.Sleep(failureEvery)
		if err := from(attacker, NewText()); !errors.Is(err, clock.ErrUnauthenticated) {
			t.Errorf("after a while: %v", err)
		}
	})
}

// The failures of many addresses take bounded memory.
func TestFailuresOfManyAddressesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newLimiters[netip.Addr](failureBurst, failureEvery)
		address := func(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}) }
		for n := range maxKeys {
			f.add(address(n))
		}
		for range failureBurst {
			f.add(address(7))
		}
		time.Sleep(failureEvery)
		f.add(address(maxKeys))
		if len(f.byKey) != 2 || f.byKey[address(7)] == nil {
			t.Errorf("%d addresses are left", len(f.byKey))
		}
		for n := range 3 * maxKeys {
			f.add(address(n))
			if len(f.byKey) > maxKeys {
				t.Fatalf("%d addresses", len(f.byKey))
			}
		}
	})
}
