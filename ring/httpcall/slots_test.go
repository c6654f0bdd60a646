package httpcall

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// Random requests of many receivers come and go. No bound is ever passed, the sums are right, and no waiter is left while there is a slot for it.
func TestSlotsKeepTheirBounds(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	const limit, hostLimit = 40, 8
	s := newSlots(limit, hostLimit)
	type taken struct {
		r  *receiver
		to *fakeSender
	}
	var all []*receiver
	var targets []*fakeSender
	var held []taken
	waits := map[*slotWait]bool{}
	for i := range 30 {
		all = append(all, &receiver{})
		targets = append(targets, &fakeSender{address: fmt.Sprint("host", i%12), concurrency: 1 + i%7})
	}
	for step := range 20_000 {
		i := random.IntN(len(all))
		switch random.IntN(5) {
		case 0, 1:
			if w := s.take(all[i], targets[i]); w == nil {
				held = append(held, taken{all[i], targets[i]})
			} else {
				waits[w] = true
			}
		case 2:
			s.setSlow(all[i], random.IntN(2) == 0)
		default:
			if len(held) > 0 {
				n := random.IntN(len(held))
				s.free(held[n].r, held[n].to)
				held = append(held[:n], held[n+1:]...)
			}
		}
		for w := range waits {
			if random.IntN(50) == 0 {
				if s.abandon(w) {
					s.free(w.receiver, w.sender)
				}
				delete(waits, w)
			}
		}
		for w := range waits {
			select {
			case <-w.granted:
				held = append(held, taken{w.receiver, w.sender.(*fakeSender)})
				delete(waits, w)
			default:
				if s.fits(w.receiver, w.sender) {
					t.Fatalf("seed %d, step %d: a waiter has no slot although there is one", seed, step)
				}
			}
		}
		doubted, extra, hosts, receivers := 0, 0, map[string]int{}, map[*receiver]int{}
		for _, h := range held {
			hosts[h.to.address]++
			if receivers[h.r]++; !h.r.prompt {
				doubted++
				if receivers[h.r] > 1 {
					extra++
				}
			}
		}
		for n := range held {
			if hosts[held[n].to.address] > hostLimit || receivers[held[n].r] > min(held[n].to.concurrency, hostLimit/2) {
				t.Fatalf("seed %d, step %d: a host or a receiver has too many requests", seed, step)
			}
		}
		if s.taken != len(held) || s.doubted != doubted || s.extra != extra || s.taken > limit || len(s.hosts) != len(hosts) {
			t.Fatalf("seed %d, step %d: %d taken, %d doubted, %d extra; want %d, %d, %d", seed, step, s.taken, s.doubted, s.extra, len(held), doubted, extra)
		}
	}
}

// Receivers that hang take at most half of the slots, and leave room for the first request of others that are not known.
func TestHangingReceiversLeaveSlots(t *testing.T) {
	s := newSlots(40, 20)
	to := func(i int) *fakeSender {
		return &fakeSender{address: fmt.Sprint("host", i), concurrency: 10}
	}
	for i := range 5 { // 5 times 10 requests want a slot
		r := &receiver{}
		for range 10 {
			s.take(r, to(i))
		}
	}
	if s.doubted != 15 || s.extra != 10 {
		t.Errorf("hanging receivers have %d slots, %d beyond their first ones", s.doubted, s.extra)
	}
	for i := range 5 {
		if s.take(&receiver{}, to(10+i)) != nil {
			t.Errorf("unknown receiver %d has no slot", i)
		}
	}
	if s.take(&receiver{}, to(30)) == nil {
		t.Error("receivers that are not prompt have more than half of the slots")
	}
	prompt := &receiver{}
	s.setSlow(prompt, false)
	for range 10 {
		if s.take(prompt, to(40)) != nil {
			t.Error("a prompt receiver has no slot")
		}
	}
}
