package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
)

// fakePulls hands one delivery to each reserve.
type fakePulls struct {
	deliveries chan clock.Delivery
	counts     chan int
	late       bool // rings come at the moment at which the reserve ends
}

func (f *fakePulls) Reserve(ctx context.Context, _ string, rings int) (clock.Delivery, bool) {
	f.counts <- rings
	if f.late {
		<-ctx.Done()
		return <-f.deliveries, true
	}
	select {
	case d := <-f.deliveries:
		return d, true
	case <-ctx.Done():
		return clock.Delivery{}, false
	}
}

const reserveURL = ringsURL + "/reserve"

func startPulls(t *testing.T) (*harness, *fakePulls, *fakeSettings) {
	t.Helper()
	pulls := &fakePulls{deliveries: make(chan clock.Delivery, 1), counts: make(chan int, 10)}
	fake := &fakeSettings{applied: settings.Applied{Target: clock.TargetPull, Reservable: true}}
	return start(t, func(su *setup) { su.deps.Pulls, su.deps.Settings = pulls, fake }), pulls, fake
}

// done is the result that a reserve reports.
type done struct {
	written, begun int
	err            error
}

// give makes a delivery of rings for the next reserve.
func (f *fakePulls) give(tooLate func() bool, rings ...clock.Ring) <-chan done {
	result := make(chan done, 1)
	f.deliveries <- clock.Delivery{Rings: rings, TooLateToWrite: tooLate,
		Done: func(written, begun int, err error) { result <- done{written, begun, err} }}
	return result
}

func TestReserveRespondsWithRings(t *testing.T) {
	t.Parallel()
	h, pulls, _ := startPulls(t)
	reported := pulls.give(nil, testRing(clock.JSON, "{\n\"a\":1}"), testRing(clock.Text, "x"))
	r := h.expect(200, "", "POST", reserveURL, `{"count":7,"wait":"5s"}`)
	var got struct {
		Rings []struct {
			MessageID  string          `json:"message_id"`
			BusinessID string          `json:"business_id"`
			Payload    json.RawMessage `json:"payload"`
			Text       string          `json:"text"`
		} `json:"rings"`
	}
	if err := json.Unmarshal(r.body, &got); err != nil || len(got.Rings) != 2 || got.Rings[0].MessageID != "7.3.2" ||
		got.Rings[0].BusinessID != "a\nb/ä" ||
		!strings.Contains(string(got.Rings[0].Payload), `"a":1`) || got.Rings[1].Text != "x" {
		t.Errorf("%v: %s", err, r.body)
	}
	if d := <-reported; d != (done{2, 2, nil}) || <-pulls.counts != 7 {
		t.Errorf("reported %+v", d)
	}
}

func TestReserveWithoutRingsIsEmpty(t *testing.T) {
	t.Parallel()
	h, pulls, _ := startPulls(t)
	if r := h.expect(200, "", "POST", reserveURL, `{"wait":"100ms"}`); string(r.body) != `{"rings":[]}`+"\n" {
		t.Errorf("%s", r.body)
	}
	if n := <-pulls.counts; n != 1 {
		t.Errorf("asked for %d rings by default", n)
	}
	reported := pulls.give(func() bool { return true }, testRing(clock.NoPayload, ""))
	if r := h.expect(200, "", "POST", reserveURL, ""); string(r.body) != `{"rings":[]}`+"\n" {
		t.Errorf("rings that were too late to write: %s", r.body)
	}
	if d := <-reported; d.written != 0 || d.begun != 0 || !errors.Is(d.err, ringstream.ErrTooLate) {
		t.Errorf("reported %+v", d)
	}
}

// Rings for a worker that has left go back: no byte of them was written.
func TestReserveOfAVanishedWorkerReportsUnwrittenRings(t *testing.T) {
	t.Parallel()
	h, pulls, _ := startPulls(t)
	pulls.late = true
	ctx, leave := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "POST", h.url+reserveURL, strings.NewReader(`{"wait":"1m"}`))
	if err != nil {
		t.Fatal(err)
	}
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := h.client.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-pulls.counts
	reported := pulls.give(nil, testRing(clock.NoPayload, ""))
	leave()
	<-left
	if d := <-reported; d.begun != 0 || !errors.Is(d.err, errClientLeft) {
		t.Errorf("reported %+v", d)
	}
}

func TestWrongReserves(t *testing.T) {
	t.Parallel()
	h, _, fake := startPulls(t)
	for body, want := range map[string][2]string{
		`{"count":0}`: {"out_of_range", "count"}, `{"count":65}`: {"out_of_range", "count"},
		`{"count":"1"}`:   {"invalid_value", "count"},
		`{"wait":"99ms"}`: {"out_of_range", "wait"}, `{"wait":"61s"}`: {"out_of_range", "wait"},
		`{"waits":1}`: {"unknown_field", "waits"},
	} {
		if r := h.expect(422, want[0], "POST", reserveURL, body); !strings.Contains(string(r.body), `"field":"`+want[1]+`"`) {
			t.Errorf("%s: %s", body, r.body)
		}
	}
	h.expect(400, "not_json", "POST", reserveURL, `{`)
	fake.applied = settings.Applied{Target: clock.TargetAMQP}
	h.expect(409, "rings_go_elsewhere", "POST", reserveURL, "")
	fake.applied = settings.Applied{}
	h.expect(503, "unavailable", "POST", reserveURL, "")
	start(t).expect(503, "unavailable", "POST", reserveURL, "")
}
