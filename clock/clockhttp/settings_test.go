package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// fakeSettings has the versions of the settings of shop.
type fakeSettings struct {
	versions []settings.Version // newest first
	applied  AppliedSettings
	err      error
}

func (f *fakeSettings) Settings(_ context.Context, application string) (settings.Version, error) {
	if application != "shop" || len(f.versions) == 0 {
		return settings.Version{Application: application, ChangedAt: clock.NoInstant}, f.err
	}
	return f.versions[0], f.err
}

func (f *fakeSettings) SettingsHistory(_ context.Context, application string, limit int) ([]settings.Version, error) {
	if application != "shop" {
		return nil, f.err
	}
	return f.versions[:min(limit, len(f.versions))], f.err
}

func (f *fakeSettings) Applied(string) AppliedSettings { return f.applied }

const settingsURL = "/v1/applications/shop/settings"

func TestSettingsAreShown(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{applied: AppliedSettings{Target: clock.TargetAMQP, DefaultTarget: clock.TargetAMQP}}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	want := func(url, want string) {
		t.Helper()
		if r := h.expect(200, "", "GET", url, ""); string(r.body) != want+"\n" {
			t.Errorf("%s\nwant\n%s", r.body, want)
		}
	}
	const defaults = `"amqp":null,"webhook":null,"kafka":null,"grpc":null,"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},"ack_timeout":null,"max_rings":10,"paused":false`
	want(settingsURL,
		`{"application":"shop","version":0,"changed_at":null,"changed_by":null,"settings":{},"unreadable":null,`+
			`"effective":{"target":"amqp","alarm_targets":[],`+defaults+`},"applied_version":0,"applied_target":"amqp"}`)
	want(settingsURL+"/history", `{"versions":[]}`)

	f.versions = []settings.Version{
		{Application: "shop", Version: 3, Document: `{"ack_timeout":0}`, ChangedAt: 3000, ChangedBy: "c"},
		{Application: "shop", Version: 2,
			Document:  `{"ack_timeout":90000,"alarm_targets":["pull","amqp"],"max_rings":3,"target":"stream"}`,
			ChangedAt: 2000, ChangedBy: `b "b"`},
		{Application: "shop", Version: 1, Document: `{}`, ChangedAt: 1000},
	}
	const (
		first = `{"version":1,"changed_at":"1970-01-01T00:00:01.000Z","changed_by":null,"settings":{},"unreadable":null}`
		body2 = `"version":2,"changed_at":"1970-01-01T00:00:02.000Z","changed_by":"b \"b\"",` +
			`"settings":{"target":"stream","alarm_targets":["amqp","pull"],"ack_timeout":"1m30s","max_rings":3},"unreadable":null`
		body3 = `"version":3,"changed_at":"1970-01-01T00:00:03.000Z","changed_by":"c","settings":null,` +
			`"unreadable":"ack_timeout must be from 1s to 24h, in whole milliseconds"`
	)
	want(settingsURL+"/history", `{"versions":[{`+body3+`},{`+body2+`},`+first+`]}`)
	want(settingsURL+"/history?limit=1", `{"versions":[{`+body3+`}]}`)
	f.applied = AppliedSettings{Version: 2, DefaultTarget: clock.TargetAMQP}
	want(settingsURL, `{"application":"shop",`+body3+`,"effective":null,"applied_version":2,"applied_target":null}`)
	f.versions, f.applied.Target = f.versions[1:], clock.TargetStream
	want(settingsURL,
		`{"application":"shop",`+body2+`,"effective":{"target":"stream","alarm_targets":["amqp","pull"],"amqp":null,"webhook":null,"kafka":null,"grpc":null,"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},`+
			`"ack_timeout":"1m30s","max_rings":3,"paused":false},"applied_version":2,"applied_target":"stream"}`)
	f.versions = []settings.Version{{Application: "shop", Version: 4, Document: `{"paused":true}`, ChangedAt: 4000}}
	if r := h.expect(200, "", "GET", settingsURL, ""); r.field("settings.paused") != true ||
		r.field("effective.paused") != true {
		t.Errorf("%s", r.body)
	}
}

// The endpoint is shown without what may be secret.
func TestWebhooksAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{applied: AppliedSettings{Version: 1, Target: clock.TargetWebhook}, versions: []settings.Version{{
		Application: "shop", Version: 1, ChangedAt: 1000,
		Document: `{"target":"webhook","webhook":{"url":"https://shop.example/?key=hush",` +
			`"headers":{"authorization":"hush"},"secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}}`,
	}}}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	for _, url := range []string{settingsURL, settingsURL + "/history"} {
		body := string(h.expect(200, "", "GET", url, "").body)
		const want = `"webhook":{"url":"https://shop.example/?...","method":"POST","headers":{"authorization":"..."},"body":"payload",` +
			`"timeout":"15s","concurrency":16,"secrets":["whsec_..."]}`
		if !strings.Contains(body, want) || strings.Contains(body, "hush") || strings.Contains(body, "C2FV") {
			t.Error(body)
		}
	}
}

func TestSettingsCannotBeWrittenOverHTTP(t *testing.T) {
	t.Parallel()
	h := start(t, func(su *setup) { su.deps.Settings = &fakeSettings{} })
	for _, method := range []string{"PUT", "POST", "PATCH", "DELETE"} {
		h.expect(405, "method_not_allowed", method, settingsURL, `{"target":"stream"}`)
	}
}

func TestWrongRequestsForSettings(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	h.expect(422, "invalid_application", "GET", "/v1/applications/-/settings", "")
	h.expect(422, "out_of_range", "GET", settingsURL+"/history?limit=0", "")
	h.expect(422, "out_of_range", "GET", settingsURL+"/history?limit=1001", "")
	h.expect(422, "out_of_range", "GET", settingsURL+"/history?limit=x", "")
	h.expect(422, "unknown_parameter", "GET", settingsURL+"/history?limits=1", "")
	h.expect(400, "unexpected_body", "GET", settingsURL, "{}")
	f.err = clock.Unavailable(errors.New("down"))
	h.expect(503, "unavailable", "GET", settingsURL, "")
	h.expect(503, "unavailable", "GET", settingsURL+"/history", "")
	start(t).expect(503, "unavailable", "GET", settingsURL, "")
}

// Only applications of the stream have subscribers.
func TestSubscribersNeedTheTargetStream(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{applied: AppliedSettings{Target: clock.TargetAMQP}}
	streams := newFakeStreams()
	h := start(t, withStreams(streams), func(su *setup) { su.deps.Settings = f })
	h.expect(409, "rings_go_elsewhere", "GET", ringsURL, "")
	f.applied.Target = clock.TargetWebhook
	h.expect(409, "rings_go_elsewhere", "GET", ringsURL, "")
	f.applied.Target = clock.NoTarget
	h.expect(503, "unavailable", "GET", ringsURL, "")
	f.applied.Subscribable = true
	in, _ := h.subscribe()
	event(t, in)
}

// TestStreamEndsWhenTheTargetIsAnotherOne changes the target under an open stream. The next request is refused.
func TestStreamEndsWhenTheTargetIsAnotherOne(t *testing.T) {
	t.Parallel()
	var subscribable atomic.Bool
	subscribable.Store(true)
	f := &changingSettings{subscribable: &subscribable}
	streams := newFakeStreams()
	h := start(t, withStreams(streams), func(su *setup) {
		su.deps.Settings, su.cfg.Heartbeat = f, 20*time.Millisecond
	})
	in, _ := h.subscribe()
	event(t, in)
	subscribable.Store(false)
	<-streams.closed
	if _, err := io.Copy(io.Discard, in); err != nil {
		t.Errorf("the stream ended with %v", err)
	}
	h.expect(409, "rings_go_elsewhere", "GET", ringsURL, "")
}

// changingSettings are settings of an application whose target is a webhook. Subscribers count for a while.
type changingSettings struct {
	fakeSettings

	subscribable *atomic.Bool
}

func (c *changingSettings) Applied(string) AppliedSettings {
	return AppliedSettings{Target: clock.TargetWebhook, Subscribable: c.subscribable.Load()}
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// Settings are applied to sets that do not name the options.
func TestSetsGetTheDefaultsOfTheirApplication(t *testing.T) {
	t.Parallel()
	ack := "1m"
	known, err := testForm.Parse(`{"retry":{"limit":3},"ack_timeout":"` + ack + `","max_rings":4}`)
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, func(su *setup) {
		su.defaults = func(application string) *clock.Defaults {
			if application == "shop" {
				return &known.Defaults
			}
			return nil
		}
	})
	for i, c := range []struct{ body, ackTimeout, maxRings, limit string }{
		{`{"delay":"1h"}`, `"1m"`, "4", "3"},
		{`{"delay":"1h","ack_timeout":0}`, "null", "4", "3"},
		{`{"delay":"1h","ack_timeout":null,"retry":{"initial":"2s"},"max_rings":1}`, `"1m"`, "1", "null"},
		{`{"delay":"1h","delivery":"at_most_once"}`, "null", "4", "3"},
	} {
		r := h.expect(201, "", "PUT", fmt.Sprint("/v1/applications/shop/alarms/", i), c.body)
		retry, _ := r.field("retry").(map[string]any)
		if got := []string{jsonOf(r.field("ack_timeout")), jsonOf(r.field("max_rings")), jsonOf(retry["limit"])}; got[0] != c.ackTimeout || got[1] != c.maxRings || got[2] != c.limit {
			t.Errorf("%s: %v", c.body, got)
		}
	}
	r := h.expect(201, "", "PUT", "/v1/applications/bank/alarms/1", `{"delay":"1h"}`)
	if r.field("ack_timeout") != nil {
		t.Errorf("another application: %s", r.body)
	}
}

// A set names the target of its alarm, if the settings of the application allow it. The alarm shows it, and it is part of what a repeated set compares.
func TestSetsNameAllowedTargets(t *testing.T) {
	t.Parallel()
	known, err := testForm.Parse(`{"target":"amqp","alarm_targets":["pull","stream"]}`)
	if err != nil {
		t.Fatal(err)
	}
	h := start(t, func(su *setup) {
		su.defaults = func(application string) *clock.Defaults {
			if application == "shop" {
				return &known.Defaults
			}
			return nil
		}
	})
	const shop, bank = "/v1/applications/shop/alarms/", "/v1/applications/bank/alarms/"
	for _, c := range []struct{ target, shown, ackTimeout string }{
		{`null`, "null", "null"}, {`"stream"`, `"stream"`, "null"}, {`"amqp"`, `"amqp"`, "null"},
		{`"pull"`, `"pull"`, `"1m"`},
	} {
		r := h.expect(201, "", "PUT", shop+"of-"+strings.Trim(c.target, `"`),
			`{"ring_at":2000000000000,"target":`+c.target+`}`)
		if target, ack := jsonOf(r.field("target")), jsonOf(r.field("ack_timeout")); target != c.shown ||
			ack != c.ackTimeout {
			t.Errorf("%s is shown as %s, with ack_timeout %s", c.target, target, ack)
		}
	}
	if r := h.expect(200, "", "PUT", shop+"of-stream", `{"ring_at":2000000000000,"target":"stream"}`); r.field("generation") != json.Number("1") {
		t.Errorf("the same target once more: %s", r.body)
	}
	if r := h.expect(200, "", "PUT", shop+"of-stream", `{"ring_at":2000000000000}`); r.field("generation") != json.Number("2") || r.field("target") != nil {
		t.Errorf("another target: %s", r.body)
	}
	for _, c := range []struct{ url, target, code string }{
		{shop, `"webhook"`, "target_not_allowed"}, {bank, `"amqp"`, "target_not_allowed"},
		{shop, `"pigeon"`, "invalid_value"}, {shop, `""`, "invalid_value"},
		{shop, `1`, "invalid_value"}, {shop, `"` + strings.Repeat("x", 1000) + `"`, "invalid_value"},
	} {
		if r := h.expect(422, c.code, "PUT", c.url+"wrong", `{"delay":"1h","target":`+c.target+`}`); r.field("field") != "target" {
			t.Errorf("target %.20s: %s", c.target, r.body)
		}
	}
}
