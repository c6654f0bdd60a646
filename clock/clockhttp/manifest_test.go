package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/manifest"
)

// fakeRecords has the records of manifests.
type fakeRecords struct {
	records map[string]manifest.Stored // by application
	err     error
}

func (f *fakeRecords) Manifests(_ context.Context, application string) (manifest.Stored, error) {
	stored := f.records[application]
	stored.Application = application
	return stored, f.err
}

func (f *fakeRecords) NextManifests(_ context.Context, after string, limit int) (next []manifest.Stored, err error) {
	for _, name := range slices.Sorted(maps.Keys(f.records)) {
		if name > after && len(next) < limit {
			next = append(next, f.records[name])
		}
	}
	return next, f.err
}

func (f *fakeRecords) ChangeManifests(_ context.Context, c manifest.Change) (manifest.Stored, error) {
	f.records[c.Application] = manifest.Stored{
		Application: c.Application, Version: c.IfVersion + 1, Document: c.Document,
	}
	return f.records[c.Application], f.err
}

// withManifests starts a server with manifests, above the records, settings and alarms in memory. It returns the header
// of an admin.
func withManifests(t *testing.T, records *fakeRecords, tokens *testTokens) (h *harness, admin string) {
	t.Helper()
	admin = tokens.add("ops", access.Administrator, "*")
	h = start(t, func(su *setup) {
		stored := &fakeSettings{}
		su.defaults = func(string) *clock.Defaults { return nil } // the node never learns of changed settings
		service := startService(t, su)
		su.deps.Alarms, su.deps.Settings = service, stored
		su.deps.Manifests = manifest.NewApplier(manifest.Deps{
			Store: records, Settings: stored.editor(), Alarms: service,
			Renew: func(context.Context) error { return nil },
			Now:   func(context.Context) (clock.Instant, error) { return 9000, nil },
		})
		su.deps.Access = &scattered{Watch: tokens.watch()}
	})
	return h, admin
}

const manifestsURL = "/v1/applications/shop/manifests"

const shopManifest = `{"settings":{"target":"webhook","webhook":{"url":"https://shop.example/?key=hush",` +
	`"headers":{"authorization":"hush"},"secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}},` +
	`"destinations":{"mail":{"kafka":{"topic":"mail"}}},` +
	`"alarms":{"nightly":{"repeat":{"cron":"0 3 * * *"},"payload":{"a":[1,"ü"]},"target":"kafka/mail"}}}`

func TestManifestsAreApplied(t *testing.T) {
	t.Parallel()
	records := &fakeRecords{records: map[string]manifest.Stored{}}
	h, admin := withManifests(t, records, &testTokens{t: t})
	r := h.expect(200, "", "PUT", manifestsURL+"/jobs", shopManifest, admin)
	if strings.Contains(string(r.body), "hush") || strings.Contains(string(r.body), "whsec_C2") {
		t.Errorf("secrets are shown: %s", r.body)
	}
	shown := `{"path":"","before":null,"after":{"content_type":"application/json","delivery":"at_least_once",` +
		`"max_rings":10,"payload":{"a":[1,"ü"]},"priority":0,"repeat":`
	if !strings.Contains(string(r.body), shown) || r.field("failed") != json.Number("0") {
		t.Errorf("%s", r.body)
	}
	changed := strings.NewReplacer(`0 3 * * *`, `0 4 * * *`, `[1,"ü"]`, `[2]`, "hush", "new").Replace(shopManifest)
	dry := h.expect(200, "", "PUT", manifestsURL+"/jobs?dry_run=true", changed, admin)
	r = h.expect(200, "", "PUT", manifestsURL+"/jobs", changed, admin)
	want := `{"kind":"alarm","name":"nightly","action":"update","error":null,"changes":[` +
		`{"path":"payload.a","before":[1,"ü"],"after":[2]},` +
		`{"path":"repeat.cron","before":"0 3 * * *","after":"0 4 * * *"}]}`
	if !strings.Contains(string(r.body), want) ||
		!strings.Contains(string(r.body), `"name":"webhook","action":"update","error":null,"changes":[]`) {
		t.Errorf("%s", r.body)
	}
	if strings.Replace(string(dry.body), `"dry_run":true`, `"dry_run":false`, 1) != string(r.body) {
		t.Errorf("a dry run tells %s", dry.body)
	}
	h.expect(409, "owned", "PUT", manifestsURL+"/other", shopManifest, admin)
	h.expect(200, "", "PUT", manifestsURL+"/other?take_over=true&dry_run=true", shopManifest, admin)
	r = h.expect(200, "", "GET", manifestsURL, "", admin)
	want = `{"manifests":[{"application":"shop","label":"jobs","unreadable":null,"changed_at":"1970-01-01T00:00:09.000Z","changed_by":"ops",` +
		`"items":[{"kind":"setting","name":"target"},{"kind":"setting","name":"webhook"},` +
		`{"kind":"destination","name":"mail"},{"kind":"alarm","name":"nightly"}]}]}`
	if string(r.body) != want+"\n" {
		t.Errorf("%s", r.body)
	}
	r = h.expect(200, "", "PUT", manifestsURL+"/jobs?prune=true", `{}`, admin)
	if n := strings.Count(string(r.body), `"action":"remove"`); n != 4 {
		t.Errorf("%d removed: %s", n, r.body)
	}
	if r := h.expect(200, "", "GET", alarms+"/nightly", "", admin); r.field("state") != "cancelled" {
		t.Errorf("%s", r.body)
	}
	h.expect(200, "", "GET", manifestsURL, "", admin)
}

// A manifest that changes defaults gives them to its alarms at once, also when it removes them.
func TestAlarmsOfAManifestHaveItsDefaults(t *testing.T) {
	t.Parallel()
	h, admin := withManifests(t, &fakeRecords{records: map[string]manifest.Stored{}}, &testTokens{t: t})
	const alarmOnly = `{"alarms":{"a":{"repeat":{"cron":"0 3 * * *"}}}}`
	for _, c := range []struct {
		body, rings, effect string
	}{
		{`{"settings":{"max_rings":3},` + alarmOnly[1:], "3", "create"},
		{`{"settings":{"max_rings":4},` + alarmOnly[1:], "4", "update"},
		{alarmOnly, "10", "update"},
	} {
		dry := h.expect(200, "", "PUT", manifestsURL+"/jobs?prune=true&dry_run=true", c.body, admin)
		r := h.expect(200, "", "PUT", manifestsURL+"/jobs?prune=true", c.body, admin)
		if string(r.body) != strings.Replace(string(dry.body), `"dry_run":true`, `"dry_run":false`, 1) ||
			!strings.Contains(string(r.body), `"kind":"alarm","name":"a","action":"`+c.effect+`"`) {
			t.Errorf("%s\n%s", dry.body, r.body)
		}
		if a := h.expect(200, "", "GET", alarms+"/a", "", admin); a.field("max_rings") != json.Number(c.rings) {
			t.Errorf("%s: %s", c.body, a.body)
		}
		r = h.expect(200, "", "PUT", manifestsURL+"/jobs?prune=true", c.body, admin)
		if strings.Contains(string(r.body), `"update"`) {
			t.Errorf("again: %s", r.body)
		}
	}
}

// A long payload that an alarm has is not repeated.
func TestManifestsShowNoLongPayloads(t *testing.T) {
	t.Parallel()
	h, admin := withManifests(t, &fakeRecords{records: map[string]manifest.Stored{}}, &testTokens{t: t})
	long := strings.Repeat("x", 5000)
	body := `{"alarms":{"a":{"repeat":{"cron":"0 3 * * *"},"text":"` + long + `"}}}`
	h.expect(200, "", "PUT", manifestsURL+"/jobs", body, admin)
	for _, changed := range []string{
		body, strings.Replace(body, "0 3", "0 4", 1), strings.Replace(body, long, "short", 1), `{}`,
	} {
		if r := h.expect(200, "", "PUT", manifestsURL+"/jobs?prune=true", changed, admin); len(r.body) > 1000 {
			t.Errorf("%d bytes: %.300s", len(r.body), r.body)
		}
	}
}

func TestManifestsOfAllApplicationsAreListed(t *testing.T) {
	t.Parallel()
	records := &fakeRecords{records: map[string]manifest.Stored{}}
	for i := range 5 {
		name := fmt.Sprint("app", i)
		records.records[name] = manifest.Stored{Application: name, Version: 1,
			Document: `{"manifests":{"b":{"changed_at":5,"alarms":["x"]},"a":{"changed_at":6,"settings":["target"]}}}`}
	}
	tokens := &testTokens{t: t}
	some, all := tokens.add("some", access.Reader, "app0", "app3"), tokens.add("all", access.Reader, "*")
	h, _ := withManifests(t, records, tokens)
	records.records["app1"] = manifest.Stored{Application: "app1", Version: 1,
		Document: `{"manifests":{"a":{"changed_at":-5,"alarms":["x"]}}}`}
	for _, c := range []struct {
		token, query string
		want         []string
		next         any
	}{
		{all, "?limit=2", []string{"app0/a", "app0/b", "app1/<nil>"}, "app1"},
		{all, "?limit=2&cursor=app3", []string{"app4/a", "app4/b"}, nil},
		{some, "", []string{"app0/a", "app0/b", "app3/a", "app3/b"}, nil},
		{some, "?limit=1", []string{"app0/a", "app0/b"}, "app0"},
		{some, "?limit=1&cursor=app0", []string{"app3/a", "app3/b"}, "app3"},
		{some, "?limit=1&cursor=app3", []string{}, nil},
	} {
		r := h.expect(200, "", "GET", "/v1/manifests"+c.query, "", c.token)
		got := []string{}
		list, _ := r.field("manifests").([]any)
		for _, m := range list {
			of, _ := m.(map[string]any)
			got = append(got, fmt.Sprint(of["application"], "/", of["label"]))
		}
		if !slices.Equal(got, c.want) || r.field("next_cursor") != c.next {
			t.Errorf("%s: %s", c.query, r.body)
		}
	}
}

// badManifests are bodies with the status, the code and the field of their problem.
var badManifests = []struct {
	body   string
	status int
	code   string
	field  any
}{
	{``, 400, "not_json", nil},
	{`{`, 400, "not_json", nil},
	{`[]`, 422, "invalid_value", nil},
	{`{"alarm":{}}`, 422, "unknown_field", "alarm"},
	{`{"alarms":{},"alarms":{}}`, 422, "duplicate_field", "alarms"},
	{`{"alarms":[]}`, 422, "invalid_value", "alarms"},
	{`{"alarms":{"x":{"repeat":{"every":"1h"}},"x":{"repeat":{"every":"1h"}}}}`, 422, "duplicate_field", "alarms.x"},
	{`{"alarms":{"x":7}}`, 422, "invalid_value", "alarms.x"},
	{`{"alarms":{"":{"repeat":{"every":"1h"}}}}`, 422, "invalid_business_id", "alarms"},
	{`{"alarms":{"x":{"delay":"1h"}}}`, 422, "required", "alarms.x.repeat"},
	{`{"alarms":{"x":{"repeat":{"every":"1h"},"if":"absent"}}}`, 422, "unknown_field", "alarms.x.if"},
	{`{"alarms":{"x":{"repeat":{"every":"1h"},"business_id":"y"}}}`, 422, "unknown_field", "alarms.x.business_id"},
	{`{"alarms":{"x":{"repeat":{"every":"1h"},"max_rings":0}}}`, 422, "out_of_range", "alarms.x.max_rings"},
	{`{"alarms":{"x":{"repeat":{"every":"1h"},"target":"webhook"}}}`, 422, "target_not_allowed", "alarms.x.target"},
	{`{"alarms":{"x":{"repeat":{"cron":"0 99 * * *"}}}}`, 422, "invalid_value", "alarms.x.repeat.cron"},
	{`{"settings":{"colour":"red"}}`, 422, "unknown_field", "settings.colour"},
	{`{"settings":{"target":"webhook","target":"pull"}}`, 422, "duplicate_field", "settings.target"},
	{`{"settings":{"destinations":{}}}`, 422, "unknown_field", "settings.destinations"},
	{`{"settings":{"retry":{"initial":"x"}}}`, 422, "invalid_value", "settings.retry.initial"},
	{`{"destinations":{"mail":{}}}`, 422, "required", "destinations.mail"},
	{`{"destinations":{"a b":{"kafka":{"topic":"t"}}}}`, 422, "invalid_value", "destinations.a b"},
	{`{"settings":{"quotas":{"payload_bytes":3}},"alarms":{"x":{"repeat":{"every":"1h"},"text":"long"}}}`, 413,
		"payload_too_large", "alarms.x.payload"},
	{`{"alarms":{"` + strings.Repeat("x", 129) + `":{"repeat":{"every":"1h"}}}}`, 422, "invalid_business_id", "alarms"},
}

func TestBadManifestsAreRefused(t *testing.T) {
	t.Parallel()
	h, admin := withManifests(t, &fakeRecords{records: map[string]manifest.Stored{}}, &testTokens{t: t})
	for _, c := range badManifests {
		if r := h.expect(c.status, c.code, "PUT", manifestsURL+"/jobs", c.body, admin); r.field("field") != c.field {
			t.Errorf("%.100s: field %v, not %v; %s", c.body, r.field("field"), c.field, r.body)
		}
	}
	for path, code := range map[string]string{
		"/-jobs": "invalid_value", "/a/b": "invalid_value",
		"/jobs?prune=yes": "invalid_value", "/jobs?dry_run": "invalid_value", "/jobs?dry_run=": "invalid_value",
		"/jobs?purge=true":            "unknown_parameter",
		"/" + strings.Repeat("x", 65): "invalid_value",
	} {
		h.expect(422, code, "PUT", manifestsURL+path, `{}`, admin)
	}
	h.expect(422, "invalid_cursor", "GET", "/v1/manifests?cursor=-", "", admin)
	h.expect(413, "body_too_large", "PUT", manifestsURL+"/jobs", strings.Repeat(" ", manifestBytes+1), admin)
	h.expect(405, "method_not_allowed", "DELETE", manifestsURL+"/jobs", ``, admin)
}

func TestManifestsFailAsTheDatabaseDoes(t *testing.T) {
	t.Parallel()
	records := &fakeRecords{err: clock.Unavailable(errors.New("away"))}
	h, admin := withManifests(t, records, &testTokens{t: t})
	h.expect(503, "unavailable", "PUT", manifestsURL+"/jobs", `{}`, admin)
	h.expect(503, "unavailable", "GET", manifestsURL, ``, admin)
	h.expect(503, "unavailable", "GET", "/v1/manifests", ``, admin)
	records.err, records.records = nil, map[string]manifest.Stored{"shop": {Version: 1, Document: `[]`}}
	h.expect(409, "unreadable", "PUT", manifestsURL+"/jobs", `{}`, admin)
	h.expect(409, "unreadable", "GET", manifestsURL, ``, admin)
	h = start(t)
	h.expect(503, "unavailable", "GET", manifestsURL, ``, admin)
	h.expect(503, "unavailable", "GET", "/v1/manifests", ``, admin)
}

func FuzzManifest(f *testing.F) {
	for _, c := range badManifests {
		f.Add([]byte(c.body))
	}
	f.Add([]byte(shopManifest))
	f.Add([]byte(`{"settings":null,"destinations":{"a":null},"alarms":{"\ud83d\ude00":{"repeat":{"every":1000}}}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := manifest.Manifest{Application: "shop", Label: "jobs"}
		if err := decodeManifest(body, &m); err != nil {
			if p := front.ProblemOf(err); p.Status != 400 && p.Status != 422 || p.Detail == "" {
				t.Fatalf("%q: %+v", body, p)
			}
			return
		}
		for _, texts := range []map[string]string{m.Settings, m.Destinations} {
			for name, value := range texts {
				if !json.Valid([]byte(value)) {
					t.Fatalf("%q: %s is %q", body, name, value)
				}
			}
		}
		seen := map[string]bool{}
		for i := range m.Alarms {
			key := m.Alarms[i].Key
			if key.Validate() != nil || seen[key.BusinessID] || m.Alarms[i].If.Kind != clock.AnyRow {
				t.Fatalf("%q: %+v", body, m.Alarms[i])
			}
			seen[key.BusinessID] = true
		}
		_ = m.Validate() // it must not panic
	})
}
