package clock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestWriterIsSequentialPerKey submits random ops from many goroutines, on few keys of some applications. Then it
// applies the same ops one after the other, and the decisions must be equal. Sometimes keys are locked, transactions
// fail, callers leave, and the queue or a key is full.
func TestWriterIsSequentialPerKey(t *testing.T) {
	for range 10 {
		seed := rand.Uint64()
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := &lockedRand{r: rand.New(rand.NewPCG(seed, 0))}
			configure := func(cfg *ServiceConfig, st *modelStore) {
				cfg.Writer.Committers, cfg.Writer.GroupOps, cfg.Writer.LockedWrites, cfg.Writer.KeyOps = 2, 4, 3, 8
				cfg.MaxPayload, cfg.Writer.GroupBytes, cfg.Writer.QueueBytes = 32<<10, 64<<10, 64<<10
				st.latency = 200 * time.Millisecond
				st.fail = func(WriteRequest) error {
					if rnd.n(20) == 0 {
						return Unavailable(errors.New("deadlock"))
					}
					return nil
				}
			}
			withService(t, configure, func(t *testing.T, s *testService) {
				s.writer.cfg.LoadBytes = 2 << 10 // less than the rows of a group have
				log := submitRandomly(s, rnd)
				for key, ps := range log {
					checkSequential(t, key, ps)
				}
				t.Logf("%v were decided, %v dropped", s.ops, s.dropped)
				if s.dropped[DropAbandoned] == 0 || s.dropped[DropKeyFull] == 0 || s.dropped[DropQueueFull] == 0 ||
					s.ops[Keep] == 0 || s.store.postponed == 0 {
					t.Errorf("%v were decided and %v dropped: the test does not try every case", s.ops, s.dropped)
				}
			})
		})
	}
}

// submitRandomly submits random ops and waits for them. It returns the ops on each key, in the order of submission.
func submitRandomly(s *testService, rnd *lockedRand) map[Key][]*Pending {
	var mu sync.Mutex
	var load sync.WaitGroup
	log := map[Key][]*Pending{}
	for range 20 {
		load.Go(func() {
			callers, leave := context.WithTimeout(context.Background(), time.Minute)
			defer leave()
			for range 50 {
				op := randomOp(rnd)
				mu.Lock() // makes the order in log the order of arrival
				ctx, leave := context.WithTimeout(callers, time.Duration(200+rnd.n(5000))*time.Millisecond)
				p := s.Service.Submit(ctx, op)
				log[op.Key()] = append(log[op.Key()], p)
				mu.Unlock()
				context.AfterFunc(ctx, leave)
				if rnd.n(4) == 0 {
					leave()
				}
				if rnd.n(10) == 0 {
					s.store.lock(op.Key(), time.Duration(rnd.n(200))*time.Millisecond)
				}
				if rnd.n(3) == 0 {
					<-p.Done()
				}
				if rnd.n(10) == 0 {
					p.Withdraw()
				}
				time.Sleep(time.Duration(rnd.n(15)) * time.Millisecond)
			}
		})
	}
	load.Wait()
	for _, ps := range log {
		for _, p := range ps {
			<-p.Done()
		}
	}
	return log
}

func randomOp(rnd *lockedRand) Op {
	key := Key{[]string{"shop", "shop", "shop", "books", "toys"}[rnd.n(5)], fmt.Sprint(rnd.n(4))}
	if rnd.n(4) == 0 {
		return Op{Cancel: &Cancel{Key: key}}
	}
	s := &Set{Key: key, Content: testContent()}
	s.RingAt += Instant(rnd.n(3))
	s.Payload = make([]byte, rnd.n(2<<10))
	s.If = Condition{Kind: ConditionKind(rnd.n(5)), Generation: int64(rnd.n(8))}
	return Op{Set: s}
}

// checkSequential applies the ops one after the other, except for unavailable ops, and compares the decisions.
func checkSequential(t *testing.T, key Key, ps []*Pending) {
	t.Helper()
	var row *Alarm
	for i, p := range ps {
		if errors.Is(p.decision.Err, ErrUnavailable) {
			continue
		}
		want := p.op.Decide(row, 0)
		if got, want := describe(*p.decision), describe(want); got != want {
			t.Fatalf("%v, op %d of %d: got %s, want %s", key, i, len(ps), got, want)
		}
		if want.Writes() {
			row = &want.Alarm
		}
	}
}

// describe returns a decision as a text for comparison, without instants and ids.
func describe(d Decision) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %d %d", d.Verdict, d.Alarm.State, d.Alarm.Generation, d.Alarm.RingAt)
	var e *Error
	if errors.As(d.Err, &e) {
		b.WriteString(" " + e.Code)
	}
	return b.String()
}

type lockedRand struct {
	mu sync.Mutex
	r  *rand.Rand
}

func (l *lockedRand) n(n int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.IntN(n)
}
