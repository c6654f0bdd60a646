package clock

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// modelStore is a Store in memory: what it answers is what Decide says, one transaction after the other.
type modelStore struct {
	latency time.Duration
	fail    func(r WriteRequest) error // nil: none

	failList func(q ListQuery) error // nil: none

	mu     sync.Mutex
	rows   map[Key]*Alarm
	locked map[Key]time.Time // rows held by somebody else, until then
	under  map[Key]bool      // keys of transactions that are under way
	twice  bool              // a group had a key twice, or two groups at once
	groups []WriteRequest    // all transactions, in the order of their beginning
	nextID int64

	asked    [][]int64 // what Keys was asked for
	failKeys error
}

var _ Store = (*modelStore)(nil)

func newModelStore() *modelStore {
	return &modelStore{latency: 10 * time.Millisecond, rows: map[Key]*Alarm{}, locked: map[Key]time.Time{}, under: map[Key]bool{}}
}

func (m *modelStore) Write(ctx context.Context, r WriteRequest) ([]Decision, error) {
	m.begin(r)
	defer m.end(r)
	if m.fail != nil {
		if err := m.fail(r); err != nil {
			return nil, err
		}
	}
	if err := sleep(ctx, m.latency); err != nil {
		return nil, Unavailable(err)
	}
	for _, op := range r.Ops {
		if err := sleep(ctx, min(r.Wait, m.lockedFor(op.Key()))); err != nil {
			return nil, Unavailable(err)
		}
	}
	return m.apply(r), nil
}

func (m *modelStore) begin(r WriteRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.groups = append(m.groups, r)
	for _, op := range r.Ops {
		m.twice = m.twice || m.under[op.Key()]
		m.under[op.Key()] = true
	}
}

func (m *modelStore) end(r WriteRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range r.Ops {
		delete(m.under, op.Key())
	}
}

func (m *modelStore) lockedFor(k Key) time.Duration {
	m.mu.Lock()
	defer m.mu.Unlock()
	return max(0, time.Until(m.locked[k]))
}

func (m *modelStore) apply(r WriteRequest) []Decision {
	m.mu.Lock()
	defer m.mu.Unlock()
	ds := make([]Decision, len(r.Ops))
	for i, op := range r.Ops {
		row := m.rows[op.Key()]
		if time.Now().Before(m.locked[op.Key()]) {
			ds[i].Verdict = Wait
			if row != nil {
				ds[i].Alarm = *row
			}
			continue
		}
		ds[i] = op.Decide(row, r.Now)
		if ds[i].Writes() {
			m.keep(&ds[i].Alarm)
		}
	}
	return ds
}

func (m *modelStore) keep(a *Alarm) {
	if a.ID == 0 {
		m.nextID++
		a.ID = m.nextID
	}
	row := *a
	m.rows[a.Key] = &row
}

func (m *modelStore) Get(_ context.Context, k Key) (*Alarm, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if row := m.rows[k]; row != nil {
		a := *row
		return &a, nil
	}
	return nil, &Error{Kind: ErrNotFound, Code: CodeUnknownAlarm, Detail: "no alarm"}
}

func (m *modelStore) List(_ context.Context, q ListQuery) ([]Alarm, error) {
	if m.failList != nil {
		if err := m.failList(q); err != nil {
			return nil, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Alarm
	for k, row := range m.rows {
		if k.Application == q.Application && strings.HasPrefix(k.BusinessID, q.Prefix) && k.BusinessID > q.After &&
			(len(q.States) == 0 || slices.Contains(q.States, row.State)) {
			list = append(list, *row)
		}
	}
	slices.SortFunc(list, func(a, b Alarm) int { return strings.Compare(a.BusinessID, b.BusinessID) })
	return list[:min(len(list), q.Limit)], nil
}

func (m *modelStore) Keys(_ context.Context, ids []int64) (map[int64]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, ids)
	if m.failKeys != nil {
		return nil, m.failKeys
	}
	keys := map[int64]Key{}
	for k, row := range m.rows {
		if slices.Contains(ids, row.ID) {
			keys[row.ID] = k
		}
	}
	return keys, nil
}

// lock holds the key's row from now on, for that long.
func (m *modelStore) lock(k Key, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked[k] = time.Now().Add(d)
}

// change rewrites the row of k, as a ring does.
func (m *modelStore) change(k Key, f func(a *Alarm)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(m.rows[k])
}

// transactions returns the sizes of all write groups.
func (m *modelStore) transactions() []int {
	m.mu.Lock()
	defer m.mu.Unlock()
	var sizes []int
	for _, g := range m.groups {
		sizes = append(sizes, len(g.Ops))
	}
	return sizes
}

// wakerFunc is a Waker.
type wakerFunc func(written []Decision)

func (f wakerFunc) Wake(written []Decision) { f(written) }

// testService is a Service over a modelStore, running in a bubble.
type testService struct {
	*Service
	store *modelStore
	clock *remoteClock
	stop  context.CancelFunc
	ended chan struct{}

	mu    sync.Mutex
	woken []Decision
	ops   map[Verdict]int // as Metrics.Op counted them
}

// withService runs f with a Service at work; cfg may be changed by configure.
func withService(t *testing.T, configure func(cfg *ServiceConfig, st *modelStore), f func(t *testing.T, s *testService)) {
	t.Helper()
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		synctest.Wait() // the first sample
		cfg, st := DefaultServiceConfig(), newModelStore()
		cfg.Writer.Lanes = 1
		if configure != nil {
			configure(&cfg, st)
		}
		s := &testService{store: st, clock: c, ended: make(chan struct{}), ops: map[Verdict]int{}}
		var err error
		s.Service, err = NewService(cfg, st, tb, wakerFunc(s.wake), &Metrics{Op: s.countOp})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		s.stop = stop
		go func() {
			defer close(s.ended)
			if err := s.Run(ctx); err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
		f(t, s)
		stop()
		<-s.ended
		if st.twice {
			t.Error("a key was written twice at once")
		}
		if s.writer.ops.Load() != 0 || s.writer.bytes.Load() != 0 {
			t.Errorf("%d ops and %d bytes are still counted as queued", s.writer.ops.Load(), s.writer.bytes.Load())
		}
	})
}

func (s *testService) wake(written []Decision) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.woken = append(s.woken, written...)
}

func (s *testService) countOp(_ Op, v Verdict, _ time.Duration, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ops[v]++
}

func (s *testService) set(id string) *Pending { return s.Submit(Op{Set: testSet(id)}) }

func (s *testService) cancel(id string) *Pending {
	return s.Submit(Op{Cancel: &Cancel{Key: Key{"shop", id}}})
}

// must waits for the answer, which must not be an error.
func must(t *testing.T, p *Pending) Decision {
	t.Helper()
	d, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("answered with %v", err)
	}
	return *d
}

// codeOf waits for the answer and returns its error's code.
func codeOf(t *testing.T, p *Pending) string {
	t.Helper()
	_, err := p.Wait(t.Context())
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("answered with %v, want an *Error", err)
	}
	if (e.Kind == ErrUnavailable || e.Kind == ErrUnconfirmed) && e.RetryAfter <= 0 {
		t.Errorf("%v comes without RetryAfter", e)
	}
	return e.Code
}
