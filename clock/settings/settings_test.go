package settings_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

func TestSettingsAreReadAsDocumented(t *testing.T) {
	limit3 := clock.RetryPolicy{Initial: 2 * time.Second, Factor: 1, Cap: time.Minute, Limit: 3}
	onlyLimit := clock.DefaultRetryPolicy()
	onlyLimit.Limit = 0
	roof := &loft{Place: "roof", Size: "small", Wait: 15 * time.Second, Birds: 3, Seals: []seal{"wax"}}
	for _, c := range []struct {
		document string
		want     clock.Defaults
		paused   bool
		loft     *loft
		nest     *nest
	}{
		{document: `{}`},
		{document: ` { "target" : null } `},
		{document: `{"target":"stream","retry":{"initial":2000,"factor":1,"cap":"1m","limit":3},"ack_timeout":"90s","max_rings":4}`,
			want: clock.Defaults{Target: clock.TargetStream, Retry: &limit3, AckTimeout: new(90 * time.Second),
				MaxRings: new(4)}},
		{document: `{"alarm_targets":["pull","stream","pull"]}`,
			want: clock.Defaults{Allowed: []clock.TargetKind{clock.TargetStream, clock.TargetPull}}},
		{document: `{"paused":true}`, paused: true},
		{document: `{"paused":false}`},
		{document: `{"target":"amqp","retry":{"limit":0}}`,
			want: clock.Defaults{Target: clock.TargetAMQP, Retry: &onlyLimit}},
		{document: `{"retry":{},"ack_timeout":1000}`,
			want: clock.Defaults{Retry: new(clock.DefaultRetryPolicy()), AckTimeout: new(time.Second)}},
		{document: `{"retry":{"limit":null},"max_rings":1}`,
			want: clock.Defaults{Retry: new(clock.DefaultRetryPolicy()), MaxRings: new(1)}},
		{document: `{"target":"webhook","pigeon":{"place":"roof","seals":["wax"]}}`,
			want: clock.Defaults{Target: clock.TargetWebhook}, loft: roof},
		{document: `{"pigeon":{"place":"roof","note":null,"size":"vast","wait":"1500ms","birds":9,"rings":{"a":"b"},"seals":["wax","tin"]},"owl":{"hole":"h"}}`,
			loft: &loft{Place: "roof", Size: "vast", Wait: 1500 * time.Millisecond, Birds: 9,
				Rings: map[string]string{"a": "b"}, Seals: []seal{"wax", "tin"}},
			nest: &nest{Hole: "h"}},
	} {
		same := func(s *settings.Settings) bool {
			return reflect.DeepEqual(s.Defaults, c.want) && s.Paused == c.paused &&
				reflect.DeepEqual(pigeon.Of(s), c.loft) && reflect.DeepEqual(owl.Of(s), c.nest)
		}
		got, err := form.Parse(c.document)
		if err != nil || !same(&got) {
			t.Errorf("%s: %+v, %v", c.document, got, err)
		}
		again, err := form.Parse(form.Encode(&got))
		if err != nil || !same(&again) {
			t.Errorf("%s is encoded as %s: %+v, %v", c.document, form.Encode(&got), again, err)
		}
	}
}

// Documents have their members in one order. People see no secrets, and what applies where nothing is decided.
func TestDocumentsForPeople(t *testing.T) {
	s, err := form.Parse(`{"paused":true,"pigeon":{"seals":["wax"],"rings":{"a":"hush"},"note":"hush","place":"<roof>"},` +
		`"target":"webhook","retry":{"cap":"90s"}}`)
	if err != nil {
		t.Fatal(err)
	}
	const shown = `"pigeon":{"place":"\u003croof\u003e","note":"h...","size":"small","wait":"15s","birds":3,` +
		`"rings":{"a":"..."},"seals":["seal...57abfafa"]},`
	const retry = `"retry":{"initial":"1s","factor":2,"cap":"1m30s","limit":null},`
	for _, c := range []struct{ got, want string }{
		{form.Redacted(&s), `{"target":"webhook",` + shown + retry + `"paused":true}`},
		{form.Effective(&s, clock.TargetStream), `{"target":"webhook","alarm_targets":[],"owl":null,` + shown + `"destinations":null,` + retry +
			`"ack_timeout":null,"max_rings":10,"quotas":null,"hide_payload":false,"paused":true}`},
		{form.Effective(&settings.Settings{Defaults: clock.Defaults{Target: clock.TargetPull}}, clock.TargetStream),
			`{"target":"pull","alarm_targets":[],"owl":null,"pigeon":null,"destinations":null,` +
				`"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},"ack_timeout":"1m","max_rings":10,"quotas":null,"hide_payload":false,"paused":false}`},
		{form.Effective(&settings.Settings{}, clock.NoTarget), `{"target":null,"alarm_targets":[],"owl":null,"pigeon":null,"destinations":null,` +
			`"retry":{"initial":"1s","factor":2,"cap":"30s","limit":null},"ack_timeout":null,"max_rings":10,"quotas":null,"hide_payload":false,"paused":false}`},
		{form.Encode(&settings.Settings{}), `{}`},
	} {
		if c.got != c.want {
			t.Errorf("%s\nwant\n%s", c.got, c.want)
		}
	}
	if pigeon.Of(&s).Note != "hush" || pigeon.Of(&s).Rings["a"] != "hush" {
		t.Error("the settings themselves were changed")
	}
}

// A form describes its fields, with their defaults.
func TestFieldsAreDescribed(t *testing.T) {
	fields := map[string]settings.FieldInfo{}
	for _, f := range form.Fields() {
		fields[f.Name] = f
		for _, inner := range f.Fields {
			fields[f.Name+"."+inner.Name] = inner
		}
	}
	for name, want := range map[string]struct {
		kind      settings.Kind
		byDefault any
	}{
		"target": {settings.KindChoice, nil}, "alarm_targets": {settings.KindChoices, nil},
		"retry": {settings.KindObject, nil}, "retry.factor": {settings.KindNumber, 2.0},
		"retry.limit": {settings.KindInteger, json.RawMessage("null")}, "max_rings": {settings.KindInteger, nil},
		"ack_timeout": {settings.KindDuration, nil}, "paused": {settings.KindFlag, nil},
		"destinations": {settings.KindObjects, nil}, "destinations.owl": {settings.KindObject, nil},
		"pigeon": {settings.KindObject, nil}, "pigeon.place": {settings.KindText, nil},
		"pigeon.size": {settings.KindChoice, "small"}, "pigeon.wait": {settings.KindDuration, "15s"},
		"pigeon.birds": {settings.KindInteger, 3}, "pigeon.rings": {settings.KindTexts, nil},
		"pigeon.seals": {settings.KindSecrets, []string{}},
	} {
		if f := fields[name]; f.Kind != want.kind || !reflect.DeepEqual(f.Default, want.byDefault) {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// with returns a document whose pigeon lacks nothing and has a further member.
func with(member string) string { return `{"pigeon":{"place":"roof","seals":["wax"],` + member + `}}` }

func TestWrongSettingsNameTheirField(t *testing.T) {
	for _, c := range []struct{ document, code, field string }{
		{``, clock.CodeInvalidValue, ""},
		{`[]`, clock.CodeInvalidValue, ""},
		{`{"target":"amqp"`, clock.CodeInvalidValue, ""},
		{`{"target":"amqp",}`, clock.CodeInvalidValue, ""},
		{`{} {}`, clock.CodeInvalidValue, ""},
		{`{"max_rings":1}x`, clock.CodeInvalidValue, ""},
		{"{\"target\":\"\xff\"}", clock.CodeInvalidValue, ""},
		{`{"taget":"amqp"}`, clock.CodeUnknownField, "taget"},
		{`{"Target":"amqp"}`, clock.CodeUnknownField, "Target"},
		{`{"destinations":[]}`, clock.CodeInvalidValue, "destinations"},
		{`{"destinations":{"a":{}}}`, clock.CodeRequired, "destinations.a"},
		{`{"destinations":{"a":null,"b":[]}}`, clock.CodeInvalidValue, "destinations.b"},
		{`{"destinations":{"a b":{"owl":{"tree":"x"}}}}`, clock.CodeInvalidValue, "destinations.a b"},
		{`{"destinations":{"":{"owl":{"tree":"x"}}}}`, clock.CodeInvalidValue, "destinations."},
		{`{"destinations":{"a":{"owl":{"tree":"x"}},"a":{"owl":{"tree":"x"}}}}`, clock.CodeAmbiguous, "destinations.a"},
		{`{"destinations":{"a":{"hawk":{}}}}`, clock.CodeUnknownField, "destinations.a.hawk"},
		{`{"destinations":{"a":{"owl":{"tree":"a tree"}}}}`, clock.CodeOutOfRange, "destinations.a.owl.tree"},
		{`{"destinations":{"a":{"owl":{}}}}`, clock.CodeRequired, "destinations.a.owl.tree"},
		{`{"numbered_targets":["amqp"]}`, clock.CodeInvalidValue, "numbered_targets"},
		{`{"numbered_targets":["amqp/a","amqp/a"]}`, clock.CodeInvalidValue, "numbered_targets"},
		{`{"retry":{"retries":3}}`, clock.CodeUnknownField, "retry.retries"},
		{`{"max_rings":1,"max_rings":2}`, clock.CodeAmbiguous, "max_rings"},
		{`{"retry":{"cap":"1m","cap":"1m"}}`, clock.CodeAmbiguous, "retry.cap"},
		{`{"target":"pigeon"}`, clock.CodeInvalidValue, "target"},
		{`{"target":""}`, clock.CodeInvalidValue, "target"},
		{`{"target":1}`, clock.CodeInvalidValue, "target"},
		{`{"alarm_targets":"stream"}`, clock.CodeInvalidValue, "alarm_targets"},
		{`{"alarm_targets":["stream",""]}`, clock.CodeInvalidValue, "alarm_targets"},
		{`{"retry":3}`, clock.CodeInvalidValue, "retry"},
		{`{"retry":{"initial":"soon"}}`, clock.CodeInvalidValue, "retry.initial"},
		{`{"retry":{"initial":"1m"}}`, clock.CodeOutOfRange, "retry.cap"},
		{`{"retry":{"factor":"2"}}`, clock.CodeInvalidValue, "retry.factor"},
		{`{"retry":{"factor":0.5}}`, clock.CodeOutOfRange, "retry.factor"},
		{`{"retry":{"limit":-1}}`, clock.CodeOutOfRange, "retry.limit"},
		{`{"retry":{"limit":1.5}}`, clock.CodeInvalidValue, "retry.limit"},
		{`{"ack_timeout":"0s"}`, clock.CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"25h"}`, clock.CodeOutOfRange, "ack_timeout"},
		{`{"ack_timeout":"-1s"}`, clock.CodeInvalidValue, "ack_timeout"},
		{`{"ack_timeout":true}`, clock.CodeInvalidValue, "ack_timeout"},
		{`{"paused":1}`, clock.CodeInvalidValue, "paused"},
		{`{"max_rings":0}`, clock.CodeOutOfRange, "max_rings"},
		{`{"max_rings":"3"}`, clock.CodeInvalidValue, "max_rings"},
		{`{"max_rings":99999999999}`, clock.CodeInvalidValue, "max_rings"},
		{`{"target":"` + strings.Repeat("x", settings.MaxDocument) + `"}`, clock.CodeOutOfRange, ""},
		{`{"target":"webhook"}`, clock.CodeRequired, "pigeon"},
		{`{"alarm_targets":["webhook"]}`, clock.CodeRequired, "pigeon"},
		{`{"pigeon":"roof"}`, clock.CodeInvalidValue, "pigeon"},
		{`{"pigeon":[]}`, clock.CodeInvalidValue, "pigeon"},
		{`{"pigeon":{}}`, clock.CodeRequired, "pigeon.place"},
		{`{"pigeon":{"place":null}}`, clock.CodeRequired, "pigeon.place"},
		{`{"pigeon":{"place":1}}`, clock.CodeInvalidValue, "pigeon.place"},
		{`{"pigeon":{"place":"cat"}}`, clock.CodeInvalidValue, "pigeon.place"},
		{`{"pigeon":{"place":"` + strings.Repeat("x", 11) + `"}}`, clock.CodeOutOfRange, "pigeon.place"},
		{`{"pigeon":{"place":"a","place":"b"}}`, clock.CodeAmbiguous, "pigeon.place"},
		{`{"pigeon":{"palace":"a"}}`, clock.CodeUnknownField, "pigeon.palace"},
		{`{"pigeon":{"a\u0000b":"a"}}`, clock.CodeUnknownField, `pigeon."a\x00b"`},
		{with(`"size":"tiny"`), clock.CodeInvalidValue, "pigeon.size"},
		{with(`"size":""`), clock.CodeInvalidValue, "pigeon.size"},
		{with(`"wait":"999ms"`), clock.CodeOutOfRange, "pigeon.wait"},
		{with(`"wait":"61s"`), clock.CodeOutOfRange, "pigeon.wait"},
		{with(`"wait":"soon"`), clock.CodeInvalidValue, "pigeon.wait"},
		{with(`"wait":-1`), clock.CodeInvalidValue, "pigeon.wait"},
		{with(`"birds":0`), clock.CodeOutOfRange, "pigeon.birds"},
		{with(`"birds":10`), clock.CodeOutOfRange, "pigeon.birds"},
		{with(`"birds":1.5`), clock.CodeInvalidValue, "pigeon.birds"},
		{with(`"birds":"1"`), clock.CodeInvalidValue, "pigeon.birds"},
		{with(`"birds":99999999999999999999`), clock.CodeInvalidValue, "pigeon.birds"},
		{with(`"rings":[]`), clock.CodeInvalidValue, "pigeon.rings"},
		{with(`"rings":{"a":1}`), clock.CodeInvalidValue, "pigeon.rings.a"},
		{with(`"rings":{"a":"b","a":"c"}`), clock.CodeAmbiguous, "pigeon.rings.a"},
		{with(`"rings":{"b":"","a":""}`), clock.CodeInvalidValue, "pigeon.rings.a"},
		{with(`"rings":{"":""}`), clock.CodeInvalidValue, "pigeon.rings."},
		{with(`"rings":{"a":"","b":"","c":""}`), clock.CodeOutOfRange, "pigeon.rings"},
		{`{"pigeon":{"place":"roof"}}`, clock.CodeRequired, "pigeon.seals"},
		{`{"pigeon":{"place":"roof","seals":[]}}`, clock.CodeRequired, "pigeon.seals"},
		{`{"pigeon":{"place":"roof","seals":"wax"}}`, clock.CodeInvalidValue, "pigeon.seals"},
		{`{"pigeon":{"place":"roof","seals":[1]}}`, clock.CodeInvalidValue, "pigeon.seals[0]"},
		{`{"pigeon":{"place":"roof","seals":["wax","lead"]}}`, clock.CodeInvalidValue, "pigeon.seals[1]"},
		{`{"pigeon":{"place":"roof","seals":["wax","wax"]}}`, clock.CodeAmbiguous, "pigeon.seals[1]"},
		{`{"pigeon":{"place":"roof","seals":["wax","tin","ore"]}}`, clock.CodeOutOfRange, "pigeon.seals"},
		{`{"owl":{}}`, clock.CodeRequired, "owl.tree"},
		{`{"owl":{"tree":"oak","hole":"too deep"}}`, clock.CodeOutOfRange, "owl.hole"},
	} {
		s, err := form.Parse(c.document)
		e, is := errors.AsType[*clock.Error](err)
		if !is || e.Code != c.code || e.Field != c.field || !errors.Is(err, clock.ErrInvalid) || e.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s and field %q", c.document, err, c.code, c.field)
		}
		if !reflect.DeepEqual(s, settings.Settings{}) {
			t.Errorf("%.80s: settings beside an error: %+v", c.document, s)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"target":"stream","retry":{"initial":"2s","factor":1.5,"cap":"1m","limit":3},"ack_timeout":"1m30s","max_rings":4}`,
		`{"pigeon":{"place":"a","size":"vast","wait":1500,"birds":2,"rings":{"x":"<"},"seals":["wax"]},"owl":{"hole":"h"}}`, `{"retry":{"limit":null}}`, `{"max_rings":1e2}`,
		`{"target":null}`, `[{`, `{"a":{}}`, `{"alarm_targets":["pull"]}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, document string) {
		s, err := form.Parse(document)
		if err != nil {
			if e, is := errors.AsType[*clock.Error](err); !is || e.Code == "" || e.Detail == "" {
				t.Fatalf("%q: an error without code or detail: %v", document, err)
			}
			return
		}
		again, err := form.Parse(form.Encode(&s))
		if err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%q is read as %+v and encoded as %s, which is read as %+v, %v", document, s, form.Encode(&s), again,
				err)
		}
	})
}
