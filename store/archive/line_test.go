package archive

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store/engine"
)

// seeds are lines of exports.
var seeds = []string{
	`{"clockd_export":{"version":1,"engine":"sqlite 3.51.0","taken_at":"2026-11-25T01:00:00.000Z"}}`,
	`{"settings":{"application":"shop","document":{"target":"stream"}}}`,
	`{"alarm":{"id":1,"application":"shop","business_id":"4711","state":1,"generation":1,"payload":"aGVsbG8=","payload_kind":2,"content_type":"text/plain","target_ring_at":1795000000000,"next_try_time":1795000000000,"max_rings":10,"create_time":1794000000000,"update_time":1794000000000,"due_rank":9}}`,
	`{"alarm":{"id":2,"application":"shop","business_id":"a\"b \\ ü","state":5,"generation":3,"target_ring_at":1795000000000,"retry_times":4,"last_error":"nacked","retry_policy":"{\"initial\":1000,\"factor\":2,\"cap\":30000,\"limit\":4}","max_rings":10,"priority":9,"create_time":1794000000000,"update_time":1795000000001,"finished_at":1795000000001},"attempts":[{"generation":3,"ring_no":1,"claim_id":"c1","attempt_time":1795000000000,"outcome":3,"error":"nacked"}]}`,
	`{"end":{"alarms":2,"settings":1}}`,
}

func TestLinesComeBackAsWritten(t *testing.T) {
	for _, seed := range seeds {
		line, err := ParseLine([]byte(seed), settings.NewForm())
		if err != nil {
			t.Errorf("%s: %v", seed, err)
			continue
		}
		got, err := appendLine(nil, line)
		if err != nil || string(got) != seed+"\n" {
			t.Errorf("%s\nbecame\n%s%v", seed, got, err)
		}
	}
}

func TestEveryColumnHasANameInTheFile(t *testing.T) {
	want := []string{"id", "application", "business_id", "", "state", "generation", "payload", "payload_kind",
		"content_type", "target_ring_at"}
	if got := alarmColumns.names[:len(want)]; !slices.Equal(got, want) {
		t.Errorf("columns %q, want %q", got, want)
	}
	for i, name := range alarmColumns.names {
		field := reflect.TypeFor[engine.Row]().Field(i).Name
		if name == "" && field != "Shard" || strings.HasSuffix(name, "_i_d") {
			t.Errorf("the column of %s has the name %q", field, name)
		}
	}
}

func TestParseLineRefusesWhatClockdDoesNotWrite(t *testing.T) {
	alarm := seeds[2]
	for _, c := range []struct{ line, reason string }{
		{``, "EOF"},
		{`{}`, "exactly one"},
		{`{"end":{},"settings":{"application":"shop","document":{}}}`, "exactly one"},
		{`{"end":{}} {}`, "more than one JSON value"},
		{`{"end":{},"attempts":[]}`, ""},
		{`{"ending":{}}`, "unknown field"},
		{`{"clockd_export":{"version":2}}`, "version 2"},
		{`{"settings":{"application":"shop","document":{"colour":"red"}}}`, "colour"},
		{`{"settings":{"application":"-","document":{}}}`, "application must be"},
		{strings.Replace(alarm, `"state":1`, `"state":9`, 1), "column state cannot be read"},
		{strings.Replace(alarm, `"state":1`, `"state":"scheduled"`, 1), "column state"},
		{strings.Replace(alarm, `"state":1`, `"state":null`, 1), "null"},
		{strings.Replace(alarm, `"state":1`, `"state":3`, 1), "must have finished_at"},
		{strings.Replace(alarm, `"next_try_time":1795000000000,`, ``, 1), "never ring"},
		{strings.Replace(alarm, `"generation":1`, `"generation":0`, 1), "column generation"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":8`, 1), "due_rank"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":9,"destination":"x"`, 1), "does not fit destination"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":185`, 1), "does not fit destination"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":185,"receiver":"{}"`, 1), "column receiver"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":16441,"receiver":"x"`, 1), "column receiver"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":16441`, 1), "does not fit destination"},
		{strings.Replace(alarm, `"due_rank":9`, `"due_rank":185,"destination":"x/y"`, 1), "column destination"},
		{strings.Replace(alarm, `"id":1`, `"id":1,"color":2`, 1), "newer clockd"},
		{strings.Replace(alarm, `"4711"`, `" 4711"`, 1), "blank"},
		{strings.Replace(alarm, `"aGVsbG8="`, `"hello!"`, 1), "column payload"},
		{strings.Replace(alarm, `"text/plain"`, `"`+strings.Repeat("x", 129)+`"`, 1), "longer than"},
		{strings.Replace(alarm, `"alarm":{`, `"alarm":{"past_generations":"`+strings.Repeat("x", 1001)+`",`, 1), "longer than"},
		{strings.Replace(alarm, `"text/plain"`, `"\u0000"`, 1), "NUL"},
		{strings.Replace(alarm, `"text/plain"`, `"ü"`, 1), "ASCII"},
		{strings.TrimSuffix(alarm, "}") + `,"attempts":[` + strings.Repeat(`{},`, clock.MaxAttempts) + `{}]}`,
			"more than 20 attempts"},
		{strings.TrimSuffix(alarm, "}") + `,"attempts":[{"outcome":-1}]}`, "outcome"},
	} {
		if _, err := ParseLine([]byte(c.line), settings.NewForm()); c.reason != "" &&
			(err == nil || !strings.Contains(err.Error(), c.reason)) {
			t.Errorf("%.200s\nerror %v, want one with %q", c.line, err, c.reason)
		}
	}
}

func TestFindPositionStopsAfterTheLastWholeLine(t *testing.T) {
	whole := seeds[0] + "\n" + seeds[2] + "\n" + seeds[3] + "\n"
	at, length, err := FindPosition(strings.NewReader(whole + seeds[2][:40]))
	if want := (Position{After: 2, Alarms: 2}); err != nil || at != want || length != int64(len(whole)) {
		t.Errorf("%+v at %d, %v; want %+v at %d", at, length, err, want, len(whole))
	}
	at, _, err = FindPosition(strings.NewReader(whole + seeds[4] + "\n"))
	if err != nil || !at.Complete {
		t.Errorf("%+v, %v", at, err)
	}
	if _, _, err = FindPosition(strings.NewReader("{}\n")); err == nil {
		t.Error("a file that is no export has a position")
	}
}

func FuzzLine(f *testing.F) {
	for _, seed := range seeds {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		line, err := ParseLine(text, settings.NewForm())
		if err != nil {
			return
		}
		written, err := appendLine(nil, line)
		if err != nil {
			t.Fatalf("%q is read, but not written: %v", text, err)
		}
		again, err := ParseLine(written[:len(written)-1], settings.NewForm())
		if err != nil {
			t.Fatalf("%q is read, and written as %q: %v", text, written, err)
		}
		rewritten, err := appendLine(nil, again)
		if err != nil || string(rewritten) != string(written) {
			t.Fatalf("%q became %q and then %q, %v", text, written, rewritten, err)
		}
	})
}
