package clock

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// faultyStore is a Store whose writes and probes fail while err is not nil.
type faultyStore struct {
	*modelStore
	mu     sync.Mutex
	err    error
	probes int
}

func (s *faultyStore) setErr(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

func (s *faultyStore) Write(ctx context.Context, r WriteRequest) ([]Decision, error) {
	s.mu.Lock()
	err := s.err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return s.modelStore.Write(ctx, r)
}

func (s *faultyStore) ProbeWrite(context.Context, Instant) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.probes++
	return s.err
}

// withFaultyStore runs f with a Service on a faultyStore, and with the Service's log.
func withFaultyStore(t *testing.T, f func(t *testing.T, s *Service, st *faultyStore, log *bytes.Buffer)) {
	t.Helper()
	inBubble(t, func(t *testing.T, _ *remoteClock, tb *Timebase) {
		synctest.Wait() // the first sample
		var log bytes.Buffer
		st := &faultyStore{modelStore: newModelStore()}
		s, err := NewService(DefaultServiceConfig(), ServiceDeps{
			Store: st, Prober: st, Time: tb, Listener: listenerFunc(func([]Decision) {}),
			Log: slog.New(slog.NewTextHandler(&log, nil)),
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); _ = s.Run(ctx) }()
		f(t, s, st, &log)
		stop()
		<-ended
	})
}

func trySet(s *Service) error {
	_, err := s.Submit(context.Background(), Op{Set: testSet("a")}).Wait(context.Background())
	return err
}

var errDenied = Unavailable(errors.New("INSERT command denied"))

// After one failed request the service probes by itself, and notices when writes work again.
func TestServiceProbesUntilWritesWorkAgain(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, s *Service, st *faultyStore, log *bytes.Buffer) {
		st.setErr(errDenied)
		if err := trySet(s); !errors.Is(err, ErrUnavailable) {
			t.Fatalf("a set: %v", err)
		}
		time.Sleep(failingAfter - time.Millisecond)
		if err := s.Writable(); err != nil {
			t.Errorf("too early: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		if err := s.Writable(); err == nil || !errors.Is(err, errDenied) ||
			!strings.Contains(err.Error(), "INSERT command denied") {
			t.Errorf("after %s: %v", failingAfter, err)
		}
		st.setErr(nil)
		time.Sleep(probeEvery)
		if err := s.Writable(); err != nil {
			t.Errorf("when writes work again: %v", err)
		}
		probes := st.probes
		time.Sleep(time.Minute)
		if st.probes != probes {
			t.Errorf("%d probes although writes work", st.probes-probes)
		}
		synctest.Wait()
		if got := log.String(); strings.Count(got, "could not write") != 1 ||
			strings.Count(got, "writes work again") != 1 {
			t.Errorf("logged:\n%s", got)
		}
	})
}

// A short fault does not make the service unwritable.
func TestServiceStaysWritableThroughABriefFault(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, s *Service, st *faultyStore, _ *bytes.Buffer) {
		for range 100 {
			st.setErr(errDenied)
			_ = trySet(s)
			time.Sleep(400 * time.Millisecond)
			st.setErr(nil)
			if err := trySet(s); err != nil {
				t.Fatal(err)
			}
			time.Sleep(100 * time.Millisecond)
			if err := s.Writable(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// While requests fail the service does not probe, and it logs one line in ten seconds.
func TestServiceLogsFailingWritesSparsely(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, s *Service, st *faultyStore, log *bytes.Buffer) {
		st.setErr(errDenied)
		for range 310 {
			_ = trySet(s)
			time.Sleep(100 * time.Millisecond)
		}
		synctest.Wait()
		lines := strings.Count(log.String(), "could not write")
		if lines != 4 || strings.Count(log.String(), "suppressed=99") != 3 || st.probes != 0 {
			t.Errorf("%d lines of 310 failures in 31 s, %d probes:\n%s", lines, st.probes, log)
		}
	})
}

// A refused request is the caller's fault, not a fault of the database.
func TestRefusedRequestsDoNotMakeTheServiceUnwritable(t *testing.T) {
	withFaultyStore(t, func(t *testing.T, s *Service, st *faultyStore, log *bytes.Buffer) {
		for range 20 {
			if _, err := s.Submit(t.Context(), Op{Cancel: &Cancel{Key: Key{"shop", "nobody"}}}).Wait(t.Context()); !errors.Is(err, ErrNotFound) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		if err := s.Writable(); err != nil || st.probes > 0 || log.Len() > 0 {
			t.Errorf("%v, %d probes, logged %q", err, st.probes, log)
		}
	})
}
