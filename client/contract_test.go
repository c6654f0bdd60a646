package client

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

// readContract reads a part of what the clients of all languages have in common.
func readContract[T any](t *testing.T, part string) (cases T) {
	t.Helper()
	b, err := os.ReadFile("../clients/contract.json")
	if err != nil {
		t.Fatal(err)
	}
	var parts map[string]json.RawMessage
	if err := json.Unmarshal(b, &parts); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(parts[part], &cases); err != nil {
		t.Fatalf("%s: %v", part, err)
	}
	return cases
}

// micros is a number of microseconds.
type micros int64

func (m *micros) duration() time.Duration {
	if m == nil {
		return 0
	}
	return time.Duration(*m) * time.Microsecond
}

func (m *micros) time() time.Time {
	if m == nil {
		return time.Time{}
	}
	return time.UnixMicro(int64(*m))
}

// microsOf returns nil for the zero time.
func microsOf(t time.Time) *micros {
	if t.IsZero() {
		return nil
	}
	m := micros(t.UnixMicro())
	return &m
}

// sameJSON reports whether the layout alone differs.
func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)); err != nil {
		t.Fatalf("%v: %s, %s", err, a, b)
	}
	return reflect.DeepEqual(x, y)
}

func TestContractOfSegments(t *testing.T) {
	t.Parallel()
	c := readContract[struct {
		IDs, Without []string
		Same         []struct{ ID, Segment string }
	}](t, "segments")
	for _, id := range c.IDs {
		got := escape(id)
		if back, err := url.PathUnescape(got); back != id || err != nil {
			t.Errorf("%q is %q", id, got)
		}
		for _, reserved := range c.Without {
			if strings.Contains(got, reserved) {
				t.Errorf("%q is %q", id, got)
			}
		}
	}
	for _, s := range c.Same {
		if got := escape(s.ID); got != s.Segment {
			t.Errorf("%q is %q, want %q", s.ID, got, s.Segment)
		}
	}
}

func TestContractOfDurations(t *testing.T) {
	t.Parallel()
	for _, c := range readContract[[]struct {
		Text string
		Us   *micros
	}](t, "durations") {
		var d duration
		err := json.Unmarshal(appendQuoted(nil, c.Text), &d)
		if (err != nil) != (c.Us == nil) || time.Duration(d) != c.Us.duration() {
			t.Errorf("%q is %s, %v", c.Text, time.Duration(d), err)
		}
	}
}

// contractPayload has the members of a payload in the contract.
type contractPayload struct {
	Payload    json.RawMessage
	Text       *string
	DataBase64 *string `json:"data_base64"`
}

func (p *contractPayload) payload(t *testing.T) Payload {
	t.Helper()
	switch {
	case p.Text != nil:
		return Text(*p.Text)
	case p.DataBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*p.DataBase64)
		if err != nil {
			t.Fatal(err)
		}
		return Bytes(b)
	case p.Payload != nil:
		return RawJSON(p.Payload)
	}
	return Payload{}
}

// contractSet is a set in the contract.
type contractSet struct {
	DelayUs        *micros         `json:"delay_us"`
	RingAtUs       *micros         `json:"ring_at_us"`
	RingAtLocal    string          `json:"ring_at_local"`
	TimeZone       string          `json:"time_zone"`
	LatestRingAtUs *micros         `json:"latest_ring_at_us"`
	OnlyIf         json.RawMessage `json:"only_if"`
	contractPayload
	ContentType  string  `json:"content_type"`
	AckTimeoutUs *micros `json:"ack_timeout_us"`
	MaxRings     int     `json:"max_rings"`
	Priority     int
	Retry        *struct {
		InitialUs micros `json:"initial_us"`
		Factor    float64
		CapUs     micros `json:"cap_us"`
		Limit     *int
	}
	Delivery    Delivery
	Target      string
	Receiver    Receiver
	Traceparent string
	Repeat      *struct {
		Cron, DST      string
		TimeZone       string   `json:"time_zone"`
		EveryUs        *micros  `json:"every_us"`
		AnchorUs       *micros  `json:"anchor_us"`
		FromUs         *micros  `json:"from_us"`
		UntilUs        *micros  `json:"until_us"`
		SkipDates      []string `json:"skip_dates"`
		Times          int64
		JitterUs       *micros `json:"jitter_us"`
		LatestAfterUs  *micros `json:"latest_after_us"`
		Missed         Missed
		MissedLimit    int     `json:"missed_limit"`
		MissedWindowUs *micros `json:"missed_window_us"`
		Overlap        Overlap
		PauseAfter     int `json:"pause_after"`
	}
}

func (c *contractSet) set(t *testing.T) Set {
	t.Helper()
	s := Set{
		Payload: c.payload(t), ContentType: c.ContentType, LatestRingAt: c.LatestRingAtUs.time(),
		AckTimeout: c.AckTimeoutUs.duration(), MaxRings: c.MaxRings, Priority: c.Priority, Delivery: c.Delivery,
		Target: c.Target, Receiver: c.Receiver, Traceparent: c.Traceparent,
	}
	switch {
	case c.DelayUs != nil:
		s.When = After(c.DelayUs.duration())
	case c.RingAtLocal != "":
		s.When = AtLocal(c.RingAtLocal, c.TimeZone)
	case c.RingAtUs != nil:
		s.When = At(c.RingAtUs.time())
	}
	if c.AckTimeoutUs != nil && *c.AckTimeoutUs == 0 {
		s.AckTimeout = NoAckTimeout
	}
	var generation int64
	if json.Unmarshal(c.OnlyIf, &generation) == nil {
		s.If = AtGeneration(generation)
	} else if len(c.OnlyIf) > 0 {
		s.If = map[string]Condition{`"absent"`: Absent, `"earlier"`: Earlier, `"later"`: Later}[string(c.OnlyIf)]
	}
	if r := c.Retry; r != nil {
		s.Retry = &Retry{Initial: r.InitialUs.duration(), Factor: r.Factor, Cap: r.CapUs.duration(), Limit: r.Limit}
	}
	if r := c.Repeat; r != nil {
		s.Repeat = &Repeat{
			Cron: r.Cron, TimeZone: r.TimeZone, Every: r.EveryUs.duration(), Anchor: r.AnchorUs.time(),
			From: r.FromUs.time(), Until: r.UntilUs.time(), SkipDates: r.SkipDates, Times: r.Times,
			Jitter: r.JitterUs.duration(), LatestAfter: r.LatestAfterUs.duration(), Missed: r.Missed,
			MissedLimit: r.MissedLimit, MissedWindow: r.MissedWindowUs.duration(), Overlap: r.Overlap,
			PauseAfter: r.PauseAfter, DST: r.DST,
		}
	}
	return s
}

// alarmJSON is an alarm that the tests do not look at.
const alarmJSON = `{"business_id":"x","state":"scheduled"}`

// played is a client whose requests the function answers.
func played(t *testing.T, play func(r *http.Request) (*http.Response, error)) *Client {
	t.Helper()
	c, err := New("http://service", WithHTTPClient(&http.Client{Transport: roundTripper(play)}))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func playedResponse(status int, header http.Header, body string) *http.Response {
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}
}

func TestContractOfSets(t *testing.T) {
	t.Parallel()
	for _, c := range readContract[[]struct {
		Name    string
		Set     contractSet
		Body    json.RawMessage
		Headers map[string]string
		Repeat  string
		Refused string
	}](t, "sets") {
		t.Run(c.Name, func(t *testing.T) {
			client := played(t, func(r *http.Request) (*http.Response, error) {
				body, err := io.ReadAll(r.Body)
				switch {
				case err != nil:
					t.Error(err)
				case !sameJSON(t, body, c.Body):
					t.Errorf("body %s, want %s", body, c.Body)
				}
				for _, name := range []string{"If-Match", "Traceparent"} {
					if got := r.Header.Get(name); got != c.Headers[name] {
						t.Errorf("%s: %q, want %q", name, got, c.Headers[name])
					}
				}
				return playedResponse(http.StatusOK, http.Header{}, alarmJSON), nil
			})
			s := c.Set.set(t)
			_, err := client.Set(t.Context(), "shop", "x", s)
			if c.Refused != "" {
				var e *Error
				if !errors.As(err, &e) || e.Field != c.Refused || e.Code != CodeInvalidValue {
					t.Errorf("%v, want a refusal of %s", err, c.Refused)
				}
				return
			}
			if err != nil {
				t.Error(err)
			}
			if got := map[bool]string{true: "always", false: "never"}[s.repeatable()]; got != c.Repeat {
				t.Errorf("repeated %s, want %s", got, c.Repeat)
			}
		})
	}
}

func TestContractOfAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range readContract[[]struct {
		Kind       AnswerKind
		DelayUs    *micros `json:"delay_us"`
		Reason, By string
		Body       json.RawMessage
	}](t, "answers") {
		a := Answer{Kind: c.Kind, Delay: c.DelayUs.duration(), Reason: c.Reason, By: c.By}
		if got, failed := a.encode(); failed != nil || !sameJSON(t, got, c.Body) {
			t.Errorf("%+v is %s, %v, want %s", a, got, failed, c.Body)
		}
	}
}

// contractFailure is the failure of a try in the contract.
type contractFailure struct {
	Name    string
	Status  int
	Headers map[string]string
	Body    string
	Again   bool
	Sent    bool
	Want    struct {
		Status                    int
		Code, Field, Detail, Text string
		Alarm                     string
		RetryAfterS               int `json:"retry_after_s"`
	}
}

// errBroken is the failure of a connection.
var errBroken = errors.New("connection reset by peer")

func (f *contractFailure) play() (*http.Response, error) {
	switch {
	case f.Status != 0:
		header := http.Header{}
		for name, value := range f.Headers {
			header.Set(name, value)
		}
		return playedResponse(f.Status, header, f.Body), nil
	case f.Sent:
		return nil, errBroken
	}
	return nil, &net.OpError{Op: "dial", Err: errBroken}
}

func TestContractOfFailures(t *testing.T) {
	t.Parallel()
	for _, f := range readContract[[]contractFailure](t, "failures") {
		client := played(t, func(*http.Request) (*http.Response, error) { return f.play() })
		client.tries = 1
		_, err := client.Cancel(t.Context(), "shop", "x")
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("%s: %v", f.Name, err)
		}
		var alarm string
		if e.Alarm != nil {
			alarm = e.Alarm.BusinessID
		}
		w := f.Want
		if e.Status != w.Status || e.Code != w.Code || e.Field != w.Field || w.Detail != "" && e.Detail != w.Detail ||
			alarm != w.Alarm || e.RetryAfter != time.Duration(w.RetryAfterS)*time.Second ||
			e.again != f.Again || e.Unconfirmed != f.Sent || w.Text != "" && e.Error() != w.Text {
			t.Errorf("%s: %+v, alarm %q: %v", f.Name, e, alarm, e)
		}
	}
}

func TestContractOfWaits(t *testing.T) {
	t.Parallel()
	for _, c := range readContract[[]struct {
		Try         int
		RetryAfterS int    `json:"retry_after_s"`
		MinMs       *int64 `json:"min_ms"`
		MaxMs       *int64 `json:"max_ms"`
	}](t, "waits") {
		for range 100 {
			got := backoff(c.Try, time.Duration(c.RetryAfterS)*time.Second)
			within := c.MinMs != nil && got >= time.Duration(*c.MinMs)*time.Millisecond &&
				got <= time.Duration(*c.MaxMs)*time.Millisecond
			if none := got < 0; none != (c.MinMs == nil) || !none && !within {
				t.Fatalf("after try %d with Retry-After %d: %s", c.Try, c.RetryAfterS, got)
			}
		}
	}
	for _, c := range readContract[[]struct {
		Value string
		S     int
	}](t, "retry_after") {
		if got := retryAfter(c.Value); got != time.Duration(c.S)*time.Second {
			t.Errorf("%q: %s, want %d s", c.Value, got, c.S)
		}
	}
}

func TestContractOfEvents(t *testing.T) {
	t.Parallel()
	for _, c := range readContract[[]struct {
		Name, Stream string
		Events       []struct {
			ID, Type string
			Data     *string
		}
	}](t, "events") {
		r := newEventReader(strings.NewReader(c.Stream))
		for _, want := range c.Events {
			e, err := r.next()
			data := ""
			if want.Data != nil {
				data = *want.Data
			}
			if err != nil || e.id != want.ID || e.kind != want.Type || string(e.data) != data {
				t.Errorf("%s: %+v, %v, want %+v", c.Name, e, err, want)
			}
		}
		if e, err := r.next(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %+v, %v", c.Name, e, err)
		}
	}
}

func TestContractOfRings(t *testing.T) {
	t.Parallel()
	type occurrence struct {
		Number       int64
		AtUs         *micros `json:"at_us"`
		PreviousAtUs *micros `json:"previous_at_us"`
		NextAtUs     *micros `json:"next_at_us"`
	}
	type ring struct {
		MessageID    string `json:"message_id"`
		Application  string
		BusinessID   string `json:"business_id"`
		Generation   int64
		RingNo       int     `json:"ring_no"`
		RetryTimes   int     `json:"retry_times"`
		RingAtUs     *micros `json:"ring_at_us"`
		RungAtUs     *micros `json:"rung_at_us"`
		ClaimID      string  `json:"claim_id"`
		AckTimeoutUs *micros `json:"ack_timeout_us"`
		ContentType  string  `json:"content_type"`
		Traceparent  string
		Occurrence   *occurrence
		contractPayload
	}
	for _, c := range readContract[[]struct {
		Name, JSON string
		Want       *ring
	}](t, "rings") {
		var r Ring
		err := r.UnmarshalJSON([]byte(c.JSON))
		if c.Want == nil || err != nil {
			if (c.Want == nil) != (err != nil) {
				t.Errorf("%s: %+v, %v", c.Name, r, err)
			}
			continue
		}
		got := ring{
			MessageID: r.MessageID, Application: r.Application, BusinessID: r.BusinessID, Generation: r.Generation,
			RingNo: r.RingNo, RetryTimes: r.RetryTimes, RingAtUs: microsOf(r.RingAt), RungAtUs: microsOf(r.RungAt),
			ClaimID: r.ClaimID, ContentType: r.ContentType, Traceparent: r.Traceparent,
		}
		if r.AckTimeout != 0 {
			timeout := micros(r.AckTimeout.Microseconds())
			got.AckTimeoutUs = &timeout
		}
		if o := r.Occurrence; o != nil {
			got.Occurrence = &occurrence{o.Number, microsOf(o.At), microsOf(o.PreviousAt), microsOf(o.NextAt)}
		}
		payload := c.Want.payload(t)
		c.Want.contractPayload = contractPayload{}
		if !reflect.DeepEqual(&got, c.Want) || r.Payload.Kind() != payload.Kind() ||
			r.Payload.Kind() == JSONPayload && !sameJSON(t, r.Payload.Bytes(), payload.Bytes()) ||
			r.Payload.Kind() != JSONPayload && r.Payload.String() != payload.String() {
			t.Errorf("%s: %+v %v %q, want %+v", c.Name, got, r.Payload.Kind(), r.Payload, c.Want)
		}
	}
}
