package postgresql

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// listener is a running Listen call.
type listener struct {
	bodies chan string
	ended  chan error
	stop   context.CancelFunc
}

func listen(t *testing.T, s *opened) *listener {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	e := &listener{bodies: make(chan string, 100), ended: make(chan error, 1), stop: stop}
	t.Cleanup(stop)
	ready := make(chan struct{})
	go func() { e.ended <- s.Listen(ctx, func() { close(ready) }, func(body string) { e.bodies <- body }) }()
	select {
	case <-ready:
	case err := <-e.ended:
		t.Fatalf("listen: %v", err)
	}
	return e
}

func (e *listener) end(t *testing.T) error {
	t.Helper()
	select {
	case err := <-e.ended:
		return err
	case <-time.After(20 * time.Second):
		t.Fatal("Listen does not end")
		return nil
	}
}

func (e *listener) hear(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-e.bodies:
			if got != w {
				t.Fatalf("heard %.40q, want %.40q", got, w)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("did not hear %.40q", w)
		}
	}
}

func TestNotificationsReachEveryListenerInOrder(t *testing.T) {
	u := migratedURL(t)
	one, two := openChecked(t, u), openChecked(t, u)
	a, b := listen(t, one), listen(t, two)
	bodies := []string{`{"shard":1}`, "", strings.Repeat("ü", store.MaxNotice/2)}
	ok(t, one.Notify(t.Context(), nil), "notify nothing")
	ok(t, one.Notify(t.Context(), bodies), "notify")
	ok(t, two.Notify(t.Context(), []string{"last"}), "notify")
	for _, e := range []*listener{a, b} {
		e.hear(t, append(slices.Clone(bodies), "last")...)
		e.stop()
		ok(t, e.end(t), "listen until the context ends")
	}
	if err := one.Notify(t.Context(), []string{"fine", strings.Repeat("x", 8000)}); !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("a body that is too long: %v", err)
	}
}

// TestNotificationsStayInTheirSchema runs two stores in two schemas of one database.
func TestNotificationsStayInTheirSchema(t *testing.T) {
	u := newURL(t)
	first := openStore(t, u)
	_, err := first.d.pool.Exec(t.Context(), "CREATE SCHEMA "+strings.Repeat("s", 63))
	ok(t, err, "create a schema")
	parsed, err := url.Parse(u)
	ok(t, err, "parse the URL")
	q := parsed.Query()
	q.Set("search_path", strings.Repeat("s", 63))
	parsed.RawQuery = q.Encode()
	second := openStore(t, parsed.String())
	for _, s := range []*opened{first, second} {
		ok(t, s.Migrate(t.Context()), "migrate")
		ok(t, s.Check(t.Context()), "check")
	}
	a, b := listen(t, first), listen(t, second)
	ok(t, second.Notify(t.Context(), []string{"to the second"}), "notify")
	ok(t, first.Notify(t.Context(), []string{"to the first"}), "notify")
	a.hear(t, "to the first")
	b.hear(t, "to the second")
}

// TestListenEndsWithItsConnection terminates the session of a Listen. Listen returns an error, and the caller may
// listen again.
func TestListenEndsWithItsConnection(t *testing.T) {
	s := migrated(t)
	a := listen(t, s)
	_, err := s.d.pool.Exec(t.Context(),
		"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'clockd listen'")
	ok(t, err, "kill")
	if err := a.end(t); !errors.Is(err, clock.ErrUnavailable) {
		t.Errorf("listen: %v", err)
	}
	again := listen(t, s)
	ok(t, s.Notify(t.Context(), []string{"again"}), "notify")
	again.hear(t, "again")
}
