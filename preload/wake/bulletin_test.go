package wake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/store"
)

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

// Wake-ups go together in as few notices as possible, and each is heard. While posts fail, wake-ups are dropped, and
// posts and connections become rarer. After the failure missed is called, and wake-ups are heard again.
func TestBulletinSurvivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeNotifier{hear: make(chan string, 1000), broken: make(chan struct{})}
		var mu sync.Mutex
		var heard, missed int
		heardOne := func(body []byte) {
			mu.Lock()
			defer mu.Unlock()
			if _, err := decodeWake(body); err != nil {
				t.Error(err)
			}
			heard++
		}
		b := NewBulletin(BulletinDeps{
			Notifier: f, Heard: heardOne, Missed: func() { missed++ }, Log: slog.New(slog.DiscardHandler),
			Registerer: prometheus.NewRegistry(),
		})
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
			t.Errorf("%d notices in %d posts, %d of %d heard, missed %d times", len(f.notices), f.calls, heard,
				2*perNotice+1, missed)
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
		if n := testutil.ToFloat64(b.dropped); n < 500 || n > 600 {
			t.Errorf("%v dropped", n)
		}
		cancel()
		running.Wait()
	})
}

func TestBulletinQueueIsBounded(t *testing.T) {
	b := NewBulletin(BulletinDeps{Notifier: &fakeNotifier{}, Log: slog.New(slog.DiscardHandler),
		Registerer: prometheus.NewRegistry()})
	for range 1000 {
		b.Send(1, make([]byte, store.MaxNotice))
	}
	if n := testutil.ToFloat64(b.dropped); n < 800 || b.bytes > maxWaitingBytes {
		t.Errorf("%d bytes wait, %v wake-ups dropped", b.bytes, n)
	}
}
