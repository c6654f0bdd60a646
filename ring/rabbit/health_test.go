package rabbit

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

func TestUsableNeedsConnectionProbeAndNoBlock(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHealth(m)
	want := func(reason string, signalled bool) {
		t.Helper()
		err := h.usableErr()
		if (err == nil) != (reason == "") || err != nil && !strings.Contains(err.Error(), reason) {
			t.Errorf("usable: %v, want %q", err, reason)
		}
		if got := wire.Drain(h.changed); got != signalled {
			t.Errorf("signalled %v, want %v", got, signalled)
		}
	}
	want("not connected", false)
	h.probePassed(h.doubtCount(), time.Now())
	want("", true)
	h.probePassed(h.doubtCount(), time.Now())
	want("", false)

	before := h.doubtCount()
	h.raiseDoubt("missing")
	want("missing", true)
	h.probePassed(before, time.Now()) // a probe that began before the doubt
	want("missing", false)
	h.probePassed(h.doubtCount(), time.Now())
	want("", true)

	a, b := &wire.Link{}, &wire.Link{}
	h.block(a, "memory")
	h.block(b, "memory")
	want("memory", true)
	h.unblock(a)
	h.probePassed(h.doubtCount(), time.Now())
	want("memory", false)
	h.unblock(b)
	h.unblock(b)
	want("", true)

	h.raiseDoubt("lost")
	h.connectionDown("gone")
	h.block(a, "disk")
	want("disk", true)
	h.unblock(a)
	want("gone", false)
	h.probePassed(h.doubtCount(), time.Now())
	want("", true)
}

func TestWarnReportsChangesOnly(t *testing.T) {
	t.Parallel()
	m, err := newMetrics(nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHealth(m)
	if h.warn(roleControl, nil) || !h.warn(roleControl, []string{"a"}) || h.warn(roleControl, []string{"a"}) ||
		!h.warn(roleControl, nil) {
		t.Error("warn does not tell changes from repetitions")
	}
	h.warn(roleLane, []string{"b"})
	h.warn(roleControl, []string{"a", "c"})
	if got := h.warned(); !slices.Equal(got, []string{"a", "c", "b"}) {
		t.Errorf("warnings %q", got)
	}
	h.warn(roleControl, nil)
	if got := h.warned(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("warnings %q", got)
	}
}
