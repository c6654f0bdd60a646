package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// written is an audit that fails while err is set.
type written struct {
	mu   sync.Mutex
	acts []clock.Act
	err  error
}

func (w *written) write(_ context.Context, acts []clock.Act) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.acts = append(w.acts, acts...)
	}
	return w.err
}

func (w *written) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.err = err
}

// texts returns the acts, each as a line.
func (w *written) texts() (lines []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.acts {
		lines = append(lines, strings.Join([]string{a.At.String()[17:19], a.Name, a.From, a.RequestID,
			a.Action, a.Application, a.After}, " "))
	}
	return lines
}

// startTrail runs a trail in the test's bubble. end ends it.
func startTrail(t *testing.T) (trail *Trail, w *written, end func()) {
	w = &written{}
	begun := time.Now()
	trail = NewTrail(TrailDeps{
		Write: w.write, Log: slog.New(slog.DiscardHandler),
		Now: func() (clock.Instant, error) { return clock.Instant(time.Since(begun).Milliseconds()), nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	done, run := make(chan error), trail.Run
	go func() { done <- run(ctx) }()
	time.Sleep(time.Millisecond) // so that the test never wakes at the instant of a write
	return trail, w, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func refusalFrom(address string) Refusal {
	return Refusal{Sender: clock.Actor{From: address, RequestID: "r"}, Code: "unauthenticated", Request: "GET /v1/nodes"}
}

func wantLines(t *testing.T, w *written, want ...string) {
	t.Helper()
	if got := w.texts(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("written is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// Equal refusals between two writes are one act.
func TestTrailBoundsDetailsAndTellsPeopleApart(t *testing.T) {
	var written []clock.Act
	trail := NewTrail(TrailDeps{
		Now: func() (clock.Instant, error) { return 1, nil }, Log: slog.New(slog.DiscardHandler),
		Write: func(_ context.Context, acts []clock.Act) error {
			written = append(written, acts...)
			return nil
		},
	})
	for _, detail := range []string{"anna has no group", "eve has no group", "anna has no group"} {
		trail.Refused(Refusal{Code: clock.CodeForbidden, Detail: detail})
	}
	trail.Refused(Refusal{Code: clock.CodeUnauthenticated, Detail: strings.Repeat("ä", 200_000)})
	session := func(id, parent, maker string) *Caller {
		return &Caller{token: &Token{ID: id, ParentID: parent, CreatedBy: maker, Role: Administrator}}
	}
	for _, c := range []*Caller{
		session("s1", "t", "ops"), session("s2", "t", "ops"), session("t", "", "x"), session("s3", ParentProvider, "17"),
		session("s4", ParentProvider, "17"), session("s5", ParentProvider, "18"),
	} {
		trail.Used(c, "192.0.2.1", "r")
	}
	if err := trail.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, a := range written {
		got = append(got, a.Action)
		if len(a.After) > 2*maxDetail {
			t.Errorf("an act of %d bytes", len(a.After))
		}
	}
	if want := "denied denied denied login login login"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}

func TestTrailCountsEqualRefusals(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trail, w, end := startTrail(t)
		time.Sleep(time.Second)
		r := refusalFrom("::1")
		trail.Refused(r)
		r.Sender.RequestID, r.Detail = "later", "another" // the first counts
		trail.Refused(r)
		r.Application = "shop"
		trail.Refused(r)
		time.Sleep(trailEvery)
		const first = `01  ::1 r denied  {"code":"unauthenticated","request":"GET /v1/nodes","count":2}`
		const second = `01  ::1 later denied shop {"code":"unauthenticated","detail":"another","request":"GET /v1/nodes","count":1}`
		wantLines(t, w, first, second)
		trail.Refused(r)
		end() // writes the rest
		wantLines(t, w, first, second, strings.Replace(second, "01", "03", 1))
	})
}

// A flood of different refusals makes a bounded number of acts. The others are counted.
func TestTrailIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trail, w, end := startTrail(t)
		defer end()
		const seconds, perSecond = 600, 100
		for n := range seconds * perSecond {
			trail.Refused(refusalFrom(fmt.Sprint(n)))
			time.Sleep(time.Second / perSecond)
		}
		time.Sleep(trailEvery + trailPace)
		trail.Refused(refusalFrom("the last"))
		time.Sleep(trailEvery)
		acts := w.texts()
		counted := 0
		for _, a := range acts {
			var omitted int
			if _, rest, found := strings.Cut(a, `"omitted":`); found {
				if _, err := fmt.Sscan(strings.TrimSuffix(rest, "}"), &omitted); err != nil {
					t.Fatalf("%s: %v", a, err)
				}
			}
			counted += 1 + omitted
		}
		if most := trailBurst + seconds/int(trailPace.Seconds()) + 5; len(acts) > most || len(acts) < most/2 {
			t.Errorf("%d acts", len(acts))
		}
		if counted != seconds*perSecond+1 {
			t.Errorf("%d refusals are counted, want %d", counted, seconds*perSecond+1)
		}
	})
}

// While the database is away, the first refusals are kept.
func TestTrailWaitsForTheDatabase(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trail, w, end := startTrail(t)
		defer end()
		w.fail(errors.New("no database"))
		for n := range 40 {
			trail.Refused(refusalFrom(fmt.Sprint("n", n)))
			time.Sleep(trailEvery)
		}
		w.fail(nil)
		time.Sleep(trailEvery)
		acts := w.texts()
		if len(acts) != trailBurst || !strings.Contains(acts[0], "n0 ") || !strings.Contains(acts[trailBurst-1], "n19 ") {
			t.Errorf("%d acts: %q", len(acts), acts)
		}
		trail.Refused(refusalFrom("after"))
		time.Sleep(trailEvery)
		if acts := w.texts(); !strings.Contains(acts[len(acts)-1], `"omitted":20`) {
			t.Errorf("the last act is %s", acts[len(acts)-1])
		}
	})
}

// An operator's login is recorded once a day for each address.
func TestTrailRecordsLogins(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		trail, w, end := startTrail(t)
		defer end()
		caller := &Caller{token: &Token{ID: "id", Name: "ops", Role: Operator}}
		for range 3 {
			trail.Used(caller, "::1", "r")
			time.Sleep(trailEvery)
		}
		trail.Used(caller, "::2", "r2")
		time.Sleep(loginAgain)
		trail.Used(caller, "::1", "r3")
		time.Sleep(trailEvery)
		const login = ` login  {"role":"operator"}`
		wantLines(t, w, "00 ops ::1 r"+login, "06 ops ::2 r2"+login, "06 ops ::1 r3"+login)
		for n := range 10 * maxLogins {
			trail.Used(caller, fmt.Sprint(n), "")
		}
		if len(trail.logins) > maxLogins || len(trail.acts) > trailBurst {
			t.Errorf("%d logins and %d acts in memory", len(trail.logins), len(trail.acts))
		}
	})
}
