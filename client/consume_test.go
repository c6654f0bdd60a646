package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/faulty"
)

// consuming is a consumer that a test has started.
type consuming struct {
	t     *testing.T
	rings chan client.Ring // rings that Handle was given
	stop  func() error     // ends the context and returns the result of Consume

	mu     sync.Mutex
	faults []error
}

// consume starts a consumer whose rings the test receives. answer says how each ring is answered.
func consume(
	t *testing.T, c *client.Client, app string, answer func(r *client.Ring) client.Answer,
	change ...func(*client.Consumer),
) *consuming {
	t.Helper()
	k := &consuming{t: t, rings: make(chan client.Ring, 100)}
	consumer := client.Consumer{
		Handle: func(_ context.Context, r *client.Ring) client.Answer {
			k.rings <- *r
			return answer(r)
		},
		Failed: func(err error) {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.faults = append(k.faults, err)
		},
	}
	for _, f := range change {
		f(&consumer)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Consume(ctx, app, consumer) }()
	k.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := k.stop(); err != nil {
			t.Errorf("consume: %v", err)
		}
	})
	return k
}

// faulted returns the faults that the consumer has told.
func (k *consuming) faulted() []error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.faults
}

func acked(*client.Ring) client.Answer { return client.Answer{Kind: client.Acked} }

// ringSoon sets new alarms that are due at once. The client repeats such a set if the busy service refuses it.
func ringSoon(t *testing.T, app string, s client.Set, ids ...string) {
	t.Helper()
	s.When, s.If = client.After(0), client.Absent
	for _, id := range ids {
		if _, err := dial(t, serverURL).Set(t.Context(), app, id, s); err != nil {
			t.Fatal(err)
		}
	}
}

// awaitAlarm waits until the alarm is as the test wants it.
func awaitAlarm(t *testing.T, app, id string, want func(*client.Alarm) bool) *client.Alarm {
	t.Helper()
	c := dial(t, serverURL)
	for {
		a, err := c.Get(t.Context(), app, id)
		if err != nil {
			t.Fatal(err)
		}
		if want(a) {
			return a
		}
		<-time.After(5 * time.Millisecond)
	}
}

func inState(s client.State) func(*client.Alarm) bool {
	return func(a *client.Alarm) bool { return a.State == s }
}

func TestConsumerReceivesRingsAsTheyWereSet(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	payloads := map[string]client.Payload{
		"json": client.RawJSON([]byte(`{"order": 4711}`)), "text": client.Text("line\nbreak"),
		"bytes": client.Bytes([]byte{0, 255}), "none": {}, "a/b%+ ü": client.Text(""),
	}
	for id, p := range payloads {
		ringSoon(t, app, client.Set{Payload: p}, id)
	}
	k := consume(t, dial(t, serverURL), app, acked)
	for range len(payloads) {
		r := <-k.rings
		p, known := payloads[r.BusinessID]
		switch {
		case !known || r.Application != app || r.Generation != 1 || r.RingNo != 1 || r.AckTimeout != 0 ||
			r.ClaimID == "" || r.RetryTimes != 0:
			t.Errorf("%+v", r)
		case r.Payload.Kind() != p.Kind() || !bytes.Equal(r.Payload.Bytes(), p.Bytes()):
			t.Errorf("payload %v %q, want %v %q", r.Payload.Kind(), r.Payload.Bytes(), p.Kind(), p.Bytes())
		case !strings.HasSuffix(r.MessageID, ".1.1") || r.RungAt.Before(r.RingAt):
			t.Errorf("%+v", r)
		}
		delete(payloads, r.BusinessID)
	}
	if len(payloads) > 0 || len(k.faulted()) > 0 {
		t.Errorf("without a ring: %v; faults: %v", payloads, k.faulted())
	}
}

func TestConsumerAnswersAsTheHandlerSays(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	answers := map[string]client.Answer{
		"acked": {Kind: client.Acked}, "silent": {}, "buried": {Kind: client.Buried, Reason: "broken", By: "test"},
		"released": {Kind: client.Released, Delay: time.Hour, Reason: "no stock"},
	}
	k := consume(t, dial(t, serverURL, client.WithName("worker-7")), app, func(r *client.Ring) client.Answer {
		if r.RingNo > 1 {
			return client.Answer{Kind: client.Acked}
		}
		return answers[r.BusinessID]
	}, func(c *client.Consumer) { c.Concurrency = 4 })
	ringSoon(t, app, client.Set{AckTimeout: time.Minute}, "acked", "buried", "released")
	ringSoon(t, app, client.Set{AckTimeout: time.Second}, "silent")

	if a := awaitAlarm(t, app, "acked", inState(client.Rung)); a.Answer != client.Acked || a.AnsweredBy != "worker-7" ||
		a.RingNo != 1 {
		t.Errorf("%+v", a)
	}
	if a := awaitAlarm(t, app, "buried", inState(client.Dead)); a.Answer != client.Buried || a.AnsweredBy != "test" ||
		a.LastError != "buried: broken" {
		t.Errorf("%+v", a)
	}
	released := func(a *client.Alarm) bool {
		return a.Answer == client.Released && time.Until(a.NextTryTime) > 50*time.Minute
	}
	awaitAlarm(t, app, "released", released)
	// without an answer, the alarm rings again, and the consumer handles that ring too; an answer that comes too late
	// is for a stale ring
	a := awaitAlarm(t, app, "silent", inState(client.Rung))
	if a.RingNo < 2 || a.Answer != client.Acked {
		t.Errorf("%+v", a)
	}
	if err := k.stop(); err != nil || len(k.rings) != 3+a.RingNo {
		t.Errorf("%v after %d rings, want %d", err, len(k.rings), 3+a.RingNo)
	}
	faults := k.faulted()
	for _, f := range faults {
		if !strings.Contains(f.Error(), "/silent") || !strings.Contains(f.Error(), "stale_ring") {
			t.Error(f)
		}
	}
	if len(faults) > a.RingNo-2 {
		t.Errorf("%d answers to stale rings of %d rings", len(faults), a.RingNo)
	}
}

// The first stream is cut in the middle of a ring. The next stream resumes it, so the ring comes again at once.
func TestConsumerGoesOnAfterACutConnection(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	c, server := dialFaulty(t, []faulty.Fault{faulty.Cut, faulty.Respond(503, "<html>"), faulty.HalfRing()})
	k := consume(t, c, app, acked)
	ringSoon(t, app, client.Set{AckTimeout: time.Hour}, "x")
	r := <-k.rings
	awaitAlarm(t, app, "x", inState(client.Rung))
	if r.RingNo != 1 || tries(server) != 5 { // three faults, a stream, and the answer
		t.Errorf("ring %d after %d requests", r.RingNo, tries(server))
	}
	if err := k.stop(); err != nil || len(k.rings) != 0 || len(k.faulted()) != 3 {
		t.Errorf("%v with %d further rings, faults %v", err, len(k.rings), k.faulted())
	}
}

// Each ring comes twice on the first stream, and again at the begin of the second.
func TestConsumerHandlesEachMessageIDOnce(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	var sent []byte
	double := faulty.Events(func(to io.Writer, event []byte) error {
		if !faulty.IsRing(event) {
			_, err := to.Write(event)
			return err
		}
		sent = append(sent, event...)
		_, _ = to.Write(append(bytes.Clone(event), event...))
		if bytes.Count(sent, []byte("event: ring")) == 3 {
			return faulty.ErrCut
		}
		return nil
	})
	again := faulty.Events(func(to io.Writer, event []byte) error {
		_, err := to.Write(append(sent, event...))
		sent = nil
		return err
	})
	c, _ := dialFaulty(t, []faulty.Fault{double, again})
	k := consume(t, c, app, acked)
	ringSoon(t, app, client.Set{}, "a", "b", "c")
	awaitAlarm(t, app, "c", inState(client.Rung))
	handled := map[string]int{}
	for range 3 {
		handled[(<-k.rings).BusinessID]++
	}
	ringSoon(t, app, client.Set{}, "d") // it comes behind the copies
	handled[(<-k.rings).BusinessID]++
	if err := k.stop(); err != nil || len(k.rings) != 0 || fmt.Sprint(handled) != "map[a:1 b:1 c:1 d:1]" {
		t.Errorf("%v, handled %v and %d more", err, handled, len(k.rings))
	}
}

// The service stops, and another one goes on with its alarms.
func TestConsumerOutlastsARestartOfTheService(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/clockd.db"
	url, stop := newService(t, file, "127.0.0.1:0")
	c := dial(t, url)
	k := consume(t, c, "shop", acked)
	set := func(id string) {
		t.Helper()
		if _, err := c.Set(t.Context(), "shop", id, client.Set{When: client.At(time.Now()), AckTimeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		if r := <-k.rings; r.BusinessID != id || r.RingNo != 1 {
			t.Errorf("%+v, want %s", r, id)
		}
	}
	set("before")
	stop()
	_, stop = newService(t, file, strings.TrimPrefix(url, "http://"))
	set("after")
	if err := k.stop(); err != nil {
		t.Error(err)
	}
	stop()
}

// A stream that the service refuses for good ends Consume. Other refusals pass.
func TestConsumerEndsWhenTheServiceRefusesForGood(t *testing.T) {
	t.Parallel()
	for name, c2 := range map[string]struct {
		app    string
		faults []faulty.Fault
		code   string
		status int
	}{
		"application": {"-", nil, "invalid_application", 422},
		"another program": {"shop", []faulty.Fault{
			busy("unavailable", "0"), faulty.Respond(500, "x"), faulty.Respond(409, `{"code":"rings_go_elsewhere"}`),
			faulty.Respond(200, "<html>"),
		}, "", 200},
		"proxy": {"shop", []faulty.Fault{faulty.Respond(429, ""), faulty.Respond(502, ""), faulty.Respond(403, "<html>")}, "", 403},
	} {
		t.Run(name, func(t *testing.T) {
			c, server := dialFaulty(t, c2.faults)
			silent := func(context.Context, *client.Ring) client.Answer { return client.Answer{} }
			err := c.Consume(t.Context(), c2.app, client.Consumer{Handle: silent})
			if failed := refused(t, err, c2.code); failed.Status != c2.status ||
				tries(server) != max(1, len(c2.faults)) {
				t.Errorf("%+v after %d tries", failed, tries(server))
			}
		})
	}
	if err := dial(t, serverURL).Consume(t.Context(), "shop", client.Consumer{}); err == nil {
		t.Error("a consumer without Handle is accepted")
	}
}

func TestConsumerSkipsARingThatItCannotRead(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	broken := faulty.Respond(200, "event: ring\nid: 7\ndata: {}\n\n", "Content-Type", "text/event-stream")
	c, _ := dialFaulty(t, []faulty.Fault{broken})
	k := consume(t, c, app, acked)
	ringSoon(t, app, client.Set{AckTimeout: time.Hour}, "x")
	if r := <-k.rings; r.BusinessID != "x" {
		t.Errorf("%+v", r)
	}
	if err := k.stop(); err != nil {
		t.Error(err)
	}
	faults := k.faulted()
	if len(faults) < 2 || !strings.Contains(faults[0].Error(), "ring 7: ") {
		t.Errorf("faults %v", faults)
	}
	refused(t, faults[0], "")
}
