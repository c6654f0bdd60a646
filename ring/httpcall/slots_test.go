package httpcall

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// Random requests of many receivers come, become overdue and go. No bound is ever passed, the sums are right, and no
// waiter is left while there is a slot for it.
func TestSlotsKeepTheirBounds(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const limit, hostLimit = 40, 16
	s := newSlots(limit, hostLimit)
	var all []*receiver
	var targets []*fakeSender
	var held []*slot
	waits := map[*slotWait]bool{}
	for i := range 30 {
		all = append(all, &receiver{})
		targets = append(targets, &fakeSender{address: fmt.Sprint("host", i%6), concurrency: 1 + i%7})
	}
	for step := range 20_000 {
		i := random.IntN(len(all))
		switch random.IntN(6) {
		case 0, 1:
			if sl, w := s.take(all[i], targets[i]); w == nil {
				held = append(held, sl)
			} else {
				waits[w] = true
			}
		case 2:
			s.noteEnd(all[i], time.Duration(random.IntN(2))*time.Minute, random.IntN(2) == 0)
		case 3:
			if len(held) > 0 {
				s.setOverdue(held[random.IntN(len(held))])
			}
		default:
			if len(held) > 0 {
				n := random.IntN(len(held))
				s.free(held[n])
				held = append(held[:n], held[n+1:]...)
			}
		}
		for w := range waits {
			if random.IntN(50) == 0 {
				if sl, _ := s.abandon(w); sl != nil {
					s.free(sl)
				}
				delete(waits, w)
			}
		}
		for w := range waits {
			select {
			case <-w.granted:
				held = append(held, w.slot)
				delete(waits, w)
			default:
				if s.fits(w.receiver, w.sender) {
					t.Fatalf("seed %d, step %d: a waiter has no slot although there is one", seed, step)
				}
			}
		}
		wantLoads(t, s, held)
		for i, r := range all {
			if len(r.slots) > min(targets[i].concurrency, hostLimit/4) {
				t.Fatalf("seed %d, step %d: a receiver has %d requests", seed, step, len(r.slots))
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, step %d", seed, step)
		}
	}
}

// wantLoads checks the sums and the bounds of the slots in use.
func wantLoads(t *testing.T, s *slots, held []*slot) {
	t.Helper()
	var all load
	hosts := map[string]*load{}
	for _, sl := range held {
		if hosts[sl.address] == nil {
			hosts[sl.address] = &load{}
		}
		for _, l := range []*load{&all, hosts[sl.address]} {
			l.requests++
			l.classes[sl.receiver.class].requests++
			if sl.extra {
				l.classes[sl.receiver.class].extra++
			}
			if sl.overdue {
				l.overdue++
			}
		}
	}
	if s.all != all || all.requests > s.limit || len(s.hosts) != len(hosts) {
		t.Errorf("the sums are %+v, want %+v; %d hosts, want %d", s.all, all, len(s.hosts), len(hosts))
	}
	for address, l := range hosts {
		if s.hosts[address] == nil || *s.hosts[address] != *l || l.requests > s.hostLimit {
			t.Errorf("the sums of %s are %+v, want %+v", address, s.hosts[address], *l)
		}
	}
}

// fill takes slots for up to n requests of a receiver. It returns those that it got.
func fill(s *slots, r *receiver, to Sender, n int) (got []*slot) {
	for range n {
		sl, w := s.take(r, to)
		if w != nil {
			s.abandon(w)
			return got
		}
		got = append(got, sl)
	}
	return got
}

// passPatience lets requests grow so old that their replies are late.
func passPatience(s *slots, requests []*slot) {
	for _, sl := range requests {
		s.setOverdue(sl)
	}
	for _, sl := range requests {
		if s.isCrowded(sl) {
			s.free(sl)
		}
	}
}

func promptReceiver(s *slots) *receiver {
	r := &receiver{}
	s.noteEnd(r, time.Millisecond, true)
	return r
}

// Receivers that were prompt and hang take all slots for new requests, of the process or of a host. Others find slots
// when the replies are overdue, which is before they are late, and those that hang get no more than their share.
func TestHangingReceiversLeaveSlots(t *testing.T) {
	for _, c := range []struct {
		name string
		host func(i int) string
	}{
		{"hosts of their own", func(i int) string { return fmt.Sprint("host", i) }},
		{"one host", func(int) string { return "gateway" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSlots(64, 64)
			to := func(i int) *fakeSender { return &fakeSender{address: c.host(i), concurrency: 16} }
			var hanging []*receiver
			var held []*slot
			for i := range 40 {
				r := promptReceiver(s)
				hanging, held = append(hanging, r), append(held, fill(s, r, to(i), 16)...)
			}
			if len(held) != 32 {
				t.Fatalf("%d new requests, want half of the limit", len(held))
			}
			healthy := promptReceiver(s)
			_, w := s.take(healthy, to(100))
			if w == nil {
				t.Fatal("more than half of the limit are new requests")
			}
			for more := held; len(more) > 0; {
				passPatience(s, more)
				more = nil
				for i, r := range hanging {
					more = append(more, fill(s, r, to(i), 16)...)
				}
			}
			<-w.granted
			if got := len(fill(s, healthy, to(100), 15)); got != 15 {
				t.Errorf("a prompt receiver got %d slots beside receivers that hang, want 15", got)
			}
			if got := len(fill(s, &receiver{}, to(101), 1)); got != 1 {
				t.Error("an unknown receiver has no slot beside receivers that hang")
			}
			if s.all.overdue > 32 {
				t.Errorf("receivers that hang have %d slots", s.all.overdue)
			}
		})
	}
}

// Each of many receivers that hang from the first request on keeps one slot, and leaves room for unknown receivers. A
// receiver that was served, and then idle for longer than forgetAfter, is unknown again.
func TestUnknownReceiversDoNotWaitForThoseThatHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(64, 64)
		to := func(i int) *fakeSender { return &fakeSender{address: fmt.Sprint("host", i), concurrency: 16} }
		known := receivers{all: map[string]*receiver{}}
		idle := map[string]time.Duration{"prompt": time.Millisecond, "late": 2 * s.patience} // time of the last reply
		for application, took := range idle {
			r := known.get(application)
			s.noteEnd(r, took, true)
			r.use(-1)
		}
		time.Sleep(forgetAfter)
		known.get("other").use(-1) // sweeps when the receivers are not yet idle for long enough
		time.Sleep(time.Nanosecond)
		for i := range 40 {
			for _, sl := range fill(s, &receiver{}, to(i), 16) {
				s.setOverdue(sl)
			}
		}
		for application := range idle {
			r := known.get(application)
			if r.class != unknown {
				t.Errorf("the receiver that was %s is not forgotten", application)
			}
			if len(fill(s, r, to(90), 1)) != 1 {
				t.Errorf("the receiver that was %s and then idle has no slot", application)
			}
		}
		for i := range 6 {
			if len(fill(s, &receiver{}, to(100+i), 1)) != 1 {
				t.Fatalf("unknown receiver %d has no slot", i)
			}
		}
		if got := len(fill(s, promptReceiver(s), to(200), 8)); got != 8 {
			t.Errorf("a prompt receiver got %d slots, want 8", got)
		}
	})
}

// A reply is overdue after four times the usual time. A request whose reply is late is given up only if more replies
// are overdue than may be.
func TestLateRequestsAreGivenUpWhenThereAreTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSlots(8, 8)
		to := &fakeSender{address: "gateway", concurrency: 16}
		begun := time.Now()
		gaveUp := make(chan time.Duration, 8)
		begin := func(usual time.Duration) *slot {
			r := &receiver{}
			s.noteEnd(r, usual, true)
			sl, w := s.take(r, to)
			if w != nil {
				t.Fatal("no slot")
			}
			s.watch(sl, func() { gaveUp <- time.Since(begun) })
			return sl
		}
		const usual = 10 * time.Millisecond
		first := []*slot{begin(usual), begin(usual), begin(usual), begin(usual)}
		time.Sleep(4*usual + time.Millisecond)
		synctest.Wait()
		if s.all.overdue != 4 {
			t.Fatalf("%d replies are overdue, want 4", s.all.overdue)
		}
		fifth := begin(time.Millisecond)
		time.Sleep(8*usual - time.Since(begun) + time.Millisecond) // with the fifth one more replies are overdue than may be
		synctest.Wait()
		if len(gaveUp) != 4 {
			t.Fatalf("%d requests were given up, want those that were late with 5 overdue", len(gaveUp))
		}
		for _, sl := range first {
			s.free(sl)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if len(gaveUp) != 4 {
			t.Error("a late request was given up although there was room")
		}
		s.free(fifth)
		if s.all != (load{}) {
			t.Errorf("the sums are %+v", s.all)
		}
	})
}
