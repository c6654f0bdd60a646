package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestTerminalEscapesControlCharacters(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"order-1 é 日本 🔔\n\tx": "order-1 é 日本 🔔\n\tx",
		"\x1b]0;title\x07":    `\u001b]0;title\u0007`,
		"a\u009b31mb":         `a\u009b31mb`,
		"a\u202eb\U000e0001":  `a\u202eb\udb40\udc01`,
		"a\rb\x7f\u2028":      `a\u000db\u007f\u2028`,
		"a\x9bb":              "a\ufffdb"[:1] + "\x9bb",
	} {
		var out bytes.Buffer
		n, err := terminal{&out}.Write([]byte(in))
		if err != nil || n != len(in) {
			t.Errorf("%q: wrote %d, %v", in, n, err)
		}
		if strings.ToValidUTF8(out.String(), "?") != strings.ToValidUTF8(want, "?") {
			t.Errorf("%q is written as %q, want %q", in, out.String(), want)
		}
	}
}

func TestEscapedJSONHasTheSameMeaning(t *testing.T) {
	t.Parallel()
	const id = "a\u009b\u202e\U000e0001\x7fb"
	document, err := json.Marshal(id)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if _, err := (terminal{&out}).Write(document); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got != id {
		t.Errorf("%s means %q (%v), want %q", out.Bytes(), got, err, id)
	}
}

// TestCommandsPrintNoTerminalEscapes: a server returns control characters in every field that users may fill.
func TestCommandsPrintNoTerminalEscapes(t *testing.T) {
	t.Parallel()
	const evil = "x\u009b2J\u202e"
	alarm := `{"application":"shop","business_id":"` + evil + `","state":"dead","ring_at":"2030-01-01T00:00:00.000Z","last_error":"` + evil + `","answered_by":"` + evil + `","answer":"bury","attempts":[{"error":"` + evil + `"}]}`
	for name, c := range map[string]struct{ args, responses []string }{
		"get":  {[]string{"get", "shop", "x"}, []string{"200 " + alarm}},
		"json": {[]string{"get", "shop", "x", "--json"}, []string{"200 " + alarm}},
		"list": {[]string{"list", "shop"}, []string{`200 {"alarms":[` + alarm + `]}`}},
		"rows": {[]string{"list", "shop", "--json"}, []string{`200 {"alarms":[` + alarm + `]}`}},
		"refusal": {[]string{"get", "shop", "x"},
			[]string{`404 {"status":404,"code":"unknown_alarm","detail":"` + evil + `"}`}},
		"nodes": {[]string{"nodes"}, []string{`200 {"nodes":[{"name":"` + evil + `","version":"` + evil + `"}]}`}},
	} {
		out, _, _ := runClient(t, c.responses, c.args...)
		if strings.IndexFunc(out, actsOnTerminal) >= 0 {
			t.Errorf("%s prints %q", name, out)
		}
		if !strings.Contains(out, `\u009b2J\u202e`) {
			t.Errorf("%s leaves the text out: %q", name, out)
		}
	}
}
