package settings_test

import (
	"errors"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// watchOf returns a watch with the settings of shop, and a function that changes them.
func watchOf(t *testing.T, document string) (w *settings.Watch, change func(document string)) {
	t.Helper()
	table := &settingsTable{}
	w = settings.NewWatch(form, table, slog.New(slog.DiscardHandler))
	change = func(document string) {
		t.Helper()
		table.put("shop", document)
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	change(document)
	return w, change
}

// setWith returns a set with a receiver of its own.
func setWith(application string, target clock.TargetKind, destination, receiver string) *clock.Set {
	set := clock.EmptySet()
	set.Key = clock.Key{Application: application, BusinessID: "x"}
	set.Target, set.Destination.Name, set.Receiver = target, destination, receiver
	return &set
}

const ownLoft = `{"target":"webhook","pigeon":{"place":"roof","rings":{"a":"gold"},"seals":["wax"],` +
	`"alarm_fields":{"place":["roof*","elm"],"rings":["X*"]}},` +
	`"destinations":{"b":{"pigeon":{"place":"loft","seals":["gum"]}},` +
	`"c":{"pigeon":{"place":"loft","seals":["gum"],"alarm_fields":{"place":["*"]}}}}}`

// An alarm brings the fields that the settings allow, and these are stored in one form.
func TestAlarmsBringTheFieldsThatTheSettingsAllow(t *testing.T) {
	w, _ := watchOf(t, ownLoft)
	for _, c := range []struct {
		destination, given, stored, place string
		rings                             map[string]string
	}{
		{"", `{"place":"roof2"}`, `{"place":"roof2"}`, "roof2", nil},
		{"", `{"place":"roof"}`, `{"place":"roof"}`, "roof", nil},
		{"", `{ "rings": {"x2":"b","x1":"a"} , "place" : "elm" }`, `{"place":"elm","rings":{"x1":"a","x2":"b"}}`, "elm",
			map[string]string{"x1": "a", "x2": "b"}},
		{"", `{"rings":{"x":"ä<"},"place":null}`, `{"rings":{"x":"ä\u003c"}}`, "roof", map[string]string{"x": "ä<"}},
		{"c", `{"place":"tower"}`, `{"place":"tower"}`, "tower", nil},
	} {
		set := setWith("shop", clock.TargetWebhook, c.destination, c.given)
		got, err := w.OwnReceiver(set)
		if want := (clock.OwnPlace{Fields: c.stored, Number: clock.OwnNumber(c.place)}); err != nil || got != want {
			t.Errorf("%s: %+v, %v, want %+v", c.given, got, err, want)
		}
		ring := &clock.Ring{Key: set.Key, Own: clock.OwnReceiver{Fields: got.Fields, Destination: c.destination}}
		l, err := pigeon.OwnIn(w)(ring)
		if err != nil || l.Place != c.place || !reflect.DeepEqual(l.Rings, c.rings) || len(l.Seals) != 1 {
			t.Errorf("%s rings to %+v, %v", c.given, l, err)
		}
	}
	for _, none := range []string{`{}`, `{"place":null}`, `{"rings":{}}`} {
		got, err := w.OwnReceiver(setWith("shop", clock.TargetWebhook, "", none))
		if err != nil || got != (clock.OwnPlace{}) {
			t.Errorf("%s: %+v, %v", none, got, err)
		}
	}
}

func TestAlarmsBringNoOtherFields(t *testing.T) {
	w, _ := watchOf(t, ownLoft)
	hooks := clock.TargetWebhook
	for _, c := range []struct {
		set         *clock.Set
		code, field string
	}{
		{setWith("shop", hooks, "", `{"place":"elms"}`), clock.CodeReceiverNotAllowed, "receiver.place"},
		{setWith("shop", hooks, "", `{"rings":{"x":"1","y":"2"}}`), clock.CodeReceiverNotAllowed, "receiver.rings"},
		{setWith("shop", hooks, "b", `{"place":"roof"}`), clock.CodeReceiverNotAllowed, "receiver.place"},
		{setWith("shop", hooks, "gone", `{"place":"roof"}`), clock.CodeReceiverNotAllowed, "receiver.place"},
		{setWith("others", hooks, "", `{"place":"roof"}`), clock.CodeReceiverNotAllowed, "receiver.place"},
		{setWith("shop", clock.TargetAMQP, "", `{"tree":"oak"}`), clock.CodeReceiverNotAllowed, "receiver"},
		{setWith("shop", clock.TargetStream, "", `{"place":"roof"}`), clock.CodeReceiverNotAllowed, "receiver"},
		{setWith("shop", hooks, "", `{"seals":["wax"]}`), clock.CodeUnknownField, "receiver.seals"},
		{setWith("shop", hooks, "", `{"alarm_fields":{}}`), clock.CodeUnknownField, "receiver.alarm_fields"},
		{setWith("shop", hooks, "", `{"place":7}`), clock.CodeInvalidValue, "receiver.place"},
		{setWith("shop", hooks, "", `{"place":""}`), clock.CodeInvalidValue, "receiver.place"},
		{setWith("shop", hooks, "", `{"rings":{"x":"..."}}`), clock.CodeInvalidValue, "receiver.rings.x"},
		{setWith("shop", hooks, "", `{"place":"roofcat"}`), clock.CodeInvalidValue, "receiver.place"},
		{setWith("shop", hooks, "", `{"place":"roof-roof-roof"}`), clock.CodeOutOfRange, "receiver.place"},
		{setWith("shop", hooks, "", `{"rings":{"x":""}}`), clock.CodeInvalidValue, "receiver.rings.x"},
		{setWith("shop", hooks, "", `{"place":"elm","place":"elm"}`), clock.CodeAmbiguous, "receiver.place"},
		{setWith("shop", hooks, "", `["place"]`), clock.CodeInvalidValue, "receiver"},
	} {
		got, err := w.OwnReceiver(c.set)
		e, is := errors.AsType[*clock.Error](err)
		if !is || e.Code != c.code || e.Field != c.field || got != (clock.OwnPlace{}) {
			t.Errorf("%s: %+v, %v", c.set.Receiver, got, err)
		}
	}
	_, err := w.OwnReceiver(setWith("shop", hooks, "c", `{"rings":{"x":"1"}}`))
	const want = "They allow: none. To allow more: " +
		"clockd application set shop --destination c --pigeon-alarm-field rings=..."
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v", err)
	}
}

// The settings decide again when the alarm rings, in the same words at each try.
func TestFieldsThatTheSettingsAllowNoMoreRingNowhere(t *testing.T) {
	w, change := watchOf(t, ownLoft)
	ring := &clock.Ring{Key: clock.Key{Application: "shop", BusinessID: "x"},
		Own: clock.OwnReceiver{Fields: `{"place":"elm"}`}}
	for document, want := range map[string]string{
		strings.Replace(ownLoft, `,"elm"`, "", 1):            "no longer allow what the alarm brings itself: place",
		strings.Replace(ownLoft, `"webhook"`, `"stream"`, 1): "no longer let its alarms name the target webhook",
		`{"target":"stream"}`:                                "no longer let its alarms name the target webhook",
	} {
		change(document)
		want = "the settings of the application " + want
		if l, err := pigeon.OwnIn(w)(ring); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v", document, l, err)
		}
	}
	change(ownLoft)
	if l, err := pigeon.OwnIn(w)(ring); err != nil || l.Place != "elm" {
		t.Errorf("%+v, %v", l, err)
	}
}

func TestPatternsAreChecked(t *testing.T) {
	for patterns, want := range map[string]string{
		`{"place":["*"],"rings":["a","b*"]}`: "",
		`{"place":[]}`:                       "",
		`{"birds":["*"]}`:                    "alarm_fields.birds",
		`{"place":"*"}`:                      "alarm_fields.place",
		`{"place":[1]}`:                      "alarm_fields.place",
		`{"place":["a*b"]}`:                  "alarm_fields.place[0]",
		`{"place":["ok",""]}`:                "alarm_fields.place[1]",
		`["place"]`:                          "alarm_fields",
		`{"place":["` + strings.Repeat("x", 513) + `"]}`:    "alarm_fields.place[0]",
		`{"place":["` + strings.Repeat(`x","`, 32) + `y"]}`: "alarm_fields.place",
	} {
		_, err := pigeon.Parse([]byte(`{"place":"roof","seals":["wax"],"alarm_fields":` + patterns + `}`))
		e, is := errors.AsType[*clock.Error](err)
		if want == "" && err != nil || want != "" && (!is || e.Field != want) {
			t.Errorf("%.60s: %v, want %q", patterns, err, want)
		}
	}
}
