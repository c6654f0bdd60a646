package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/settings"
)

// fakeSettings has the versions of the settings of shop.
type fakeSettings struct {
	versions []settings.Version // newest first
	applied  settings.Applied
	err      error
}

// editor returns the editor of the versions.
func (f *fakeSettings) editor() *settings.Editor {
	return settings.NewEditor(settings.EditorDeps{
		Form: testForm, Stored: storedSettings{f}, DefaultTarget: f.applied.DefaultTarget,
		Now: func(context.Context) (clock.Instant, error) { return 9000, nil },
	})
}

func (f *fakeSettings) Get(ctx context.Context, application string) (settings.View, error) {
	return f.editor().Get(ctx, application)
}

func (f *fakeSettings) History(ctx context.Context, application string, limit int) ([]settings.View, error) {
	return f.editor().History(ctx, application, limit)
}

func (f *fakeSettings) Pauses(ctx context.Context, application string) ([]clock.ApplicationPause, error) {
	return f.editor().Pauses(ctx, application)
}

func (f *fakeSettings) Change(ctx context.Context, r settings.Request) (settings.View, error) {
	return f.editor().Change(ctx, r)
}

func (f *fakeSettings) Applied(string) settings.Applied { return f.applied }

// storedSettings is the database of the versions.
type storedSettings struct{ *fakeSettings }

func (s storedSettings) Settings(_ context.Context, application string) (settings.Version, error) {
	if application != "shop" || len(s.versions) == 0 {
		return settings.Version{Application: application, ChangedAt: clock.NoInstant}, s.err
	}
	return s.versions[0], s.err
}

func (s storedSettings) SettingsHistory(_ context.Context, application string, limit int) ([]settings.Version, error) {
	if application != "shop" {
		return nil, s.err
	}
	return s.versions[:min(limit, len(s.versions))], s.err
}

func (s storedSettings) ChangeSettings(_ context.Context, c settings.Change) (settings.Version, error) {
	v := settings.Version{Application: c.Application, Version: c.IfVersion + 1, Document: c.Document, ChangedAt: c.At,
		ChangedBy: c.By.Name}
	s.fakeSettings.versions = append([]settings.Version{v}, s.versions...)
	return v, s.err
}

const settingsURL = "/v1/applications/shop/settings"

func TestSettingsAreShown(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{applied: settings.Applied{Target: clock.TargetAMQP, DefaultTarget: clock.TargetAMQP}}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	want := func(url, want string) {
		t.Helper()
		if r := h.expect(200, "", "GET", url, ""); string(r.body) != want+"\n" {
			t.Errorf("%s\nwant\n%s", r.body, want)
		}
	}
	const defaults = `"amqp":null,"webhook":null,"kafka":null,"grpc":null,"destinations":null,"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},"ack_timeout":null,"max_rings":10,"quotas":null,"hide_payload":false,"paused":false`
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
	f.applied = settings.Applied{Version: 2, DefaultTarget: clock.TargetAMQP}
	want(settingsURL, `{"application":"shop",`+body3+`,"effective":null,"applied_version":2,"applied_target":null}`)
	f.versions, f.applied.Target = f.versions[1:], clock.TargetStream
	want(settingsURL,
		`{"application":"shop",`+body2+`,"effective":{"target":"stream","alarm_targets":["amqp","pull"],"amqp":null,"webhook":null,"kafka":null,"grpc":null,"destinations":null,"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},`+
			`"ack_timeout":"1m30s","max_rings":3,"quotas":null,"hide_payload":false,"paused":false},"applied_version":2,"applied_target":"stream"}`)
	f.versions = []settings.Version{{Application: "shop", Version: 4, Document: `{"paused":true}`, ChangedAt: 4000}}
	if r := h.expect(200, "", "GET", settingsURL, ""); r.field("settings.paused") != true ||
		r.field("effective.paused") != true {
		t.Errorf("%s", r.body)
	}
}

// The endpoint is shown without what may be secret.
func TestWebhooksAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{applied: settings.Applied{Version: 1, Target: clock.TargetWebhook}, versions: []settings.Version{{
		Application: "shop", Version: 1, ChangedAt: 1000,
		Document: `{"target":"webhook","webhook":{"url":"https://shop.example/?key=hush",` +
			`"headers":{"authorization":"hush"},"secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}}`,
	}}}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	for _, url := range []string{settingsURL, settingsURL + "/history"} {
		body := string(h.expect(200, "", "GET", url, "").body)
		const want = `"webhook":{"url":"https://shop.example/?...","method":"POST","headers":{"authorization":"..."},"body":"payload",` +
			`"timeout":"15s","concurrency":16,"secrets":["whsec_...2dd745ff"]}`
		if !strings.Contains(body, want) || strings.Contains(body, "hush") || strings.Contains(body, "C2FV") {
			t.Error(body)
		}
	}
}

// Without tokens everyone who reaches the port may do everything, but not send an application's rings elsewhere.
func TestOpenInterfaceDoesNotChangeSettings(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{}
	h := start(t, func(su *setup) { su.deps.Settings = f })
	r := h.expect(403, clock.CodeForbidden, "PUT", settingsURL, `{"target":"stream"}`)
	if !strings.Contains(fmt.Sprint(r.field("detail")), "needs an access token") || len(f.versions) != 0 {
		t.Errorf("%s, %d versions", r.body, len(f.versions))
	}
	for _, method := range []string{"POST", "PATCH", "DELETE"} {
		h.expect(405, "method_not_allowed", method, settingsURL, `{"target":"stream"}`)
	}
}

const settingsSecret = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"

// startSettings starts a server with settings, and returns the headers of an admin.
func startSettings(t *testing.T, f *fakeSettings) (h *harness, admin string) {
	t.Helper()
	tokens := &testTokens{t: t}
	admin = tokens.add("ops", access.Administrator, "shop")
	return start(t, func(su *setup) { su.deps.Settings, su.deps.Access = f, tokens.watch() }), admin
}

func TestAdminChangesSettings(t *testing.T) {
	t.Parallel()
	const secret = settingsSecret
	f := &fakeSettings{applied: settings.Applied{Target: clock.TargetAMQP, DefaultTarget: clock.TargetAMQP}}
	h, admin := startSettings(t, f)
	change := func(status int, code, body string, header ...string) *reply {
		t.Helper()
		return h.expect(status, code, "PUT", settingsURL, body, append(header, admin)...)
	}
	r := change(200, "", `{"webhook":{"url":"https://a.example/?key=hush","headers":{"x-key":"hush"},`+
		`"secrets":["`+secret+`"]}}`, `If-Match: "0"`)
	if jsonOf(r.field("version")) != "1" || r.field("changed_by") != "ops" ||
		r.field("settings.webhook.timeout") != "15s" || r.header.Get("ETag") != `"1"` ||
		strings.Contains(string(r.body), "hush") || strings.Contains(string(r.body), secret) {
		t.Errorf("%s %s", r.header.Get("ETag"), r.body)
	}
	read := h.expect(200, "", "GET", settingsURL, "", admin)
	if string(read.body) != string(r.body) || read.header.Get("ETag") != `"1"` {
		t.Errorf("read\n%s\nafter the change\n%s", read.body, r.body)
	}
	edited := strings.Replace(jsonOf(read.field("settings")), "15s", "20s", 1)
	change(200, "", edited, `If-Match: "1"`)
	if stored := f.versions[0].Document; !strings.Contains(stored, "20s") || strings.Count(stored, "hush") != 2 ||
		!strings.Contains(stored, secret) {
		t.Errorf("stored is %s", stored)
	}
	change(200, "", edited, `If-Match: "1"`) // the response was lost
	elsewhere := strings.Replace(edited, "https://a.example/?...", "https://evil.example/", 1)
	if r := change(422, clock.CodeInvalidValue, elsewhere); r.field("field") != "webhook.headers.x-key" {
		t.Errorf("a header for another server: %s", r.body)
	}
	if r := change(412, clock.CodeConditionFailed, `{}`, `If-Match: "1"`); r.field("field") != "If-Match" {
		t.Errorf("%s", r.body)
	}
	change(200, "", `{"max_rings":3}`)
	change(200, "", `{}`, `If-Match: W/"3"`) // a proxy may weaken it
	for _, header := range []string{
		`If-Match: *`, `If-Match: "1", "2"`, `If-Match: 4`, `If-Match: "-1"`, `If-None-Match: *`,
	} {
		change(422, "invalid_condition", `{"max_rings":4}`, header)
	}
	if len(f.versions) != 4 || f.versions[0].Document != `{}` {
		t.Errorf("%d versions, the last is %s", len(f.versions), f.versions[0].Document)
	}
}

func TestWrongSettingsAreRefused(t *testing.T) {
	t.Parallel()
	f := &fakeSettings{}
	h, admin := startSettings(t, f)
	for _, c := range []struct {
		status            int
		code, field, body string
	}{
		{422, clock.CodeInvalidValue, "", ``}, {422, clock.CodeInvalidValue, "", `[]`},
		{422, clock.CodeInvalidValue, "", `{"max_rings":1}x`},
		{422, clock.CodeUnknownField, "taget", `{"taget":"amqp"}`},
		{422, clock.CodeOutOfRange, "max_rings", `{"max_rings":0}`},
		{422, clock.CodeRequired, "webhook", `{"target":"webhook"}`},
		{422, clock.CodeInvalidValue, "webhook.headers.a",
			`{"webhook":{"url":"https://a.example","headers":{"a":"..."},"secrets":["whsec_..."]}}`},
		{422, clock.CodeInvalidValue, "webhook.url",
			`{"webhook":{"url":"https://a.example/?...","secrets":["whsec_..."]}}`},
		{413, "body_too_large", "", `{"target":"` + strings.Repeat("x", settings.MaxGiven) + `"}`},
		{422, clock.CodeInvalidValue, "webhook.url",
			`{"webhook":{"url":"https://u:hunter2@a.example/?...","secrets":["` + settingsSecret + `"]}}`},
		{422, clock.CodeInvalidValue, "amqp.exchange", `{"amqp":{"exchange":"x\ud800y"}}`},
	} {
		r := h.expect(c.status, c.code, "PUT", settingsURL, c.body, admin)
		if field, _ := r.field("field").(string); field != c.field || strings.Contains(string(r.body), "hunter2") {
			t.Errorf("%.99s: %s", c.body, r.body)
		}
	}
	h.expect(403, clock.CodeForbidden, "PUT", "/v1/applications/bank/settings", `{}`, admin)
	h.expect(422, "unknown_parameter", "PUT", settingsURL+"?if_version=1", `{}`, admin)
	h.expect(422, "unknown_parameter", "GET", settingsURL+"?version=1", "", admin)
	if len(f.versions) != 0 {
		t.Errorf("versions: %+v", f.versions)
	}
	f.err = clock.Unconfirmed(errors.New("no reply"))
	h.expect(503, "unconfirmed", "PUT", settingsURL, `{"max_rings":1}`, admin)
	f.err = clock.Unavailable(errors.New("down"))
	h.expect(503, "unavailable", "PUT", settingsURL, `{"max_rings":1}`, admin)
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
	f := &fakeSettings{applied: settings.Applied{Target: clock.TargetAMQP}}
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

func (c *changingSettings) Applied(string) settings.Applied {
	return settings.Applied{Target: clock.TargetWebhook, Subscribable: c.subscribable.Load()}
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
	known, err := testForm.Parse(`{"target":"amqp","alarm_targets":["pull","stream"],"destinations":{"a.b_1-c":{"amqp":{"routing_key":"x"}}},` +
		`"numbered_targets":["webhook/gone","amqp/a.b_1-c"]}`)
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
		{`"pull"`, `"pull"`, `"1m"`}, {`"amqp/a.b_1-c"`, `"amqp/a.b_1-c"`, "null"},
	} {
		r := h.expect(201, "", "PUT", shop+"of-"+url.PathEscape(strings.Trim(c.target, `"`)),
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
		{shop, `"webhook/gone"`, "unknown_destination"}, {shop, `"stream/a.b_1-c"`, "invalid_value"},
		{bank, `"amqp/a.b_1-c"`, "unknown_destination"},
		{shop, `"amqp/"`, "invalid_value"}, {shop, `"amqp/.a"`, "invalid_value"}, {shop, `"amqp/a/b"`, "invalid_value"},
		{shop, `"/a"`, "invalid_value"}, {shop, `"amqp/` + strings.Repeat("x", 65) + `"`, "invalid_value"},
		{shop, `"pigeon"`, "invalid_value"}, {shop, `""`, "invalid_value"},
		{shop, `1`, "invalid_value"}, {shop, `"` + strings.Repeat("x", 1000) + `"`, "invalid_value"},
	} {
		if r := h.expect(422, c.code, "PUT", c.url+"wrong", `{"delay":"1h","target":`+c.target+`}`); r.field("field") != "target" {
			t.Errorf("target %.20s: %s", c.target, r.body)
		}
	}
}
