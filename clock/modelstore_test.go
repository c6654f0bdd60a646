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

// modelStore is a Store in memory. It returns the decisions of Decide, one transaction after the other.
type modelStore struct {
	latency time.Duration
	fail    func(r WriteRequest) error // error of Write; nil: writes succeed

	failList func(q ListQuery) error // error of List; nil: lists succeed

	mu              sync.Mutex
	rows            map[Key]*Alarm
	locked          map[Key]time.Time // time until which another transaction locks the key's row
	writing         map[Key]bool      // keys of running transactions
	waitingWrites   int               // running transactions that may wait for a row
	keyWrittenTwice bool              // a key was twice in a group, or in two running transactions
	groups          []WriteRequest    // all transactions, in the order in which they began
	nextID          int64
	postponed       int // ops whose decision was Postpone

	keysCalls [][]int64 // ids of each call of Keys
	failKeys  error     // error of Keys; nil: Keys succeeds
}

var _ Store = (*modelStore)(nil)

func newModelStore() *modelStore {
	return &modelStore{latency: 10 * time.Millisecond, rows: map[Key]*Alarm{}, locked: map[Key]time.Time{},
		writing: map[Key]bool{}}
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
		if err := sleep(ctx, min(r.LockWait, m.lockedFor(op.Key()))); err != nil {
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
		m.keyWrittenTwice = m.keyWrittenTwice || m.writing[op.Key()]
		m.writing[op.Key()] = true
	}
	if r.LockWait > 0 {
		m.waitingWrites++
	}
}

// waiting returns the number of running transactions that may wait for a row.
func (m *modelStore) waiting() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waitingWrites
}

func (m *modelStore) end(r WriteRequest) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, op := range r.Ops {
		delete(m.writing, op.Key())
	}
	if r.LockWait > 0 {
		m.waitingWrites--
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
	decisions := make([]Decision, len(r.Ops))
	loaded := 0
	for i, op := range r.Ops {
		row := m.rows[op.Key()]
		if row != nil {
			loaded += len(row.Payload)
		}
		if r.LoadBytes > 0 && loaded > r.LoadBytes && i > 0 {
			decisions[i].Verdict = Postpone
			m.postponed++
			continue
		}
		if time.Now().Before(m.locked[op.Key()]) {
			decisions[i].Verdict = Locked
			if row != nil {
				decisions[i].Alarm = *row
			}
			continue
		}
		decisions[i] = op.Decide(row, r.Now)
		if decisions[i].Writes() {
			m.keep(&decisions[i].Alarm)
		}
	}
	return decisions
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

func (m *modelStore) List(_ context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error) {
	if m.failList != nil {
		if err := m.failList(q); err != nil {
			return next, err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var list []Alarm
	for k, row := range m.rows {
		if k.Application == q.Application && strings.HasPrefix(k.BusinessID, q.Prefix) &&
			k.BusinessID > q.After.BusinessID &&
			(len(q.States) == 0 || slices.Contains(q.States, row.State)) {
			list = append(list, *row)
		}
	}
	slices.SortFunc(list, func(a, b Alarm) int { return strings.Compare(a.BusinessID, b.BusinessID) })
	for i := range list {
		if !take(&list[i]) {
			return next, nil
		}
		if next.BusinessID = list[i].BusinessID; i+1 == q.Limit {
			return next, nil
		}
	}
	return ListPosition{}, nil
}

func (m *modelStore) Keys(_ context.Context, ids []int64) (map[int64]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keysCalls = append(m.keysCalls, ids)
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

// lock locks the key's row from now on, for the duration d.
func (m *modelStore) lock(k Key, d time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked[k] = time.Now().Add(d)
}

// change changes the row of k, as a ring does.
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

// listenerFunc is a CommitListener.
type listenerFunc func(written []Decision)

func (f listenerFunc) Committed(written []Decision) { f(written) }

// testService is a running Service on a modelStore, in a synctest bubble.
type testService struct {
	*Service
	store *modelStore
	clock *remoteClock
	stop  context.CancelFunc
	ended chan struct{}

	mu      sync.Mutex
	woken   []Decision
	ops     map[Verdict]int    // as Metrics.Op counted them
	dropped map[DropReason]int // as Metrics.Dropped counted them
}

// withService runs f with a running Service. configure may change the configuration and the store; nil: defaults.
func withService(
	t *testing.T, configure func(cfg *ServiceConfig, st *modelStore), f func(t *testing.T, s *testService),
) {
	t.Helper()
	inBubble(t, func(t *testing.T, c *remoteClock, tb *Timebase) {
		synctest.Wait() // the first sample
		cfg, st := DefaultServiceConfig(), newModelStore()
		cfg.Writer.Committers = 1
		if configure != nil {
			configure(&cfg, st)
		}
		s := &testService{store: st, clock: c, ended: make(chan struct{}), ops: map[Verdict]int{},
			dropped: map[DropReason]int{}}
		var err error
		s.Service, err = NewService(cfg,
			ServiceDeps{Store: st, Time: tb, Listener: listenerFunc(s.wake),
				Metrics: Metrics{Op: s.countOp, Dropped: s.countDrop}})
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
		if st.keyWrittenTwice {
			t.Error("a key was written twice at once")
		}
		s.checkEmpty(t)
	})
}

// checkEmpty checks that the queue and the lock slots are empty, and their counts too.
func (s *testService) checkEmpty(t *testing.T) {
	t.Helper()
	q := s.writer
	slots := &q.lockSlots
	if q.ops != 0 || q.bytes != 0 || q.ready != 0 || q.youngGroups != 0 || len(q.apps) != 0 || len(q.keys) != 0 ||
		len(q.appsBySize) != 0 {
		t.Errorf("the queue still counts %d ops, %d bytes, %d ready, %d groups, %d applications, %d keys, %d in order of size",
			q.ops, q.bytes, q.ready, q.youngGroups, len(q.apps), len(q.keys), len(q.appsBySize))
	}
	if slots.free != s.cfg.Writer.LockedWrites || len(slots.turns) != 0 || len(slots.byApplication) != 0 {
		t.Errorf("%d slots are free, and %d of %d applications wait for one", slots.free, len(slots.turns),
			len(slots.byApplication))
	}
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

// Submit is Service.Submit for a caller that never leaves.
func (s *testService) Submit(op Op) *Pending { return s.Service.Submit(context.Background(), op) }

func (s *testService) countDrop(reason DropReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped[reason]++
}

func (s *testService) set(id string) *Pending { return s.Submit(Op{Set: testSet(id)}) }

func (s *testService) cancel(id string) *Pending {
	return s.Submit(Op{Cancel: &Cancel{Key: Key{"shop", id}}})
}

// must waits for the decision, which must not be an error.
func must(t *testing.T, p *Pending) Decision {
	t.Helper()
	d, err := p.Wait(t.Context())
	if err != nil {
		t.Fatalf("got %v", err)
	}
	return *d
}

// codeOf waits for the decision, which must be an error, and returns the error's code.
func codeOf(t *testing.T, p *Pending) string {
	t.Helper()
	_, err := p.Wait(t.Context())
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("got %v, want an *Error", err)
	}
	if (e.Kind == ErrUnavailable || e.Kind == ErrUnconfirmed) && e.RetryAfter <= 0 {
		t.Errorf("%v comes without RetryAfter", e)
	}
	return e.Code
}
