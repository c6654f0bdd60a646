package main

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// logLine has the fields of a line of the log that the tests read.
type logLine struct {
	Level       string `json:"level"`
	Msg         string `json:"msg"`
	Address     string `json:"address"`
	Op          string `json:"op"`
	Application string `json:"application"`
	BusinessID  string `json:"business_id"`
	AlarmID     int64  `json:"alarm_id"`
	Outcome     string `json:"outcome"`
	Err         string `json:"err"`
}

// logLines reads a log in JSON. Every line must be an object.
func logLines(t *testing.T, text string) (lines []logLine) {
	t.Helper()
	for line := range strings.Lines(text) {
		var l logLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Errorf("a line of the log is not JSON: %s", line)
		}
		lines = append(lines, l)
	}
	return lines
}

// startJSON runs clockd with a log in JSON. It prints nothing on standard output, so its address is in the log.
func startJSON(t *testing.T, level string) *process {
	t.Helper()
	p := starting(t, "CLOCKD_DATABASE_URL="+sqliteFile(t), "CLOCKD_LOG_FORMAT=json", "CLOCKD_LOG_LEVEL="+level)
	eventually(t, "clockd listens", func() bool {
		for line := range strings.Lines(p.log.String()) {
			var l logLine
			if json.Unmarshal([]byte(line), &l) == nil && l.Msg == "listening" {
				p.url = l.Address
			}
		}
		return p.url != ""
	})
	return p
}

// TestLogInJSONHasNoOtherLines sends what net/http and the libraries complain about, and starts a second process on the
// same port.
func TestLogInJSONHasNoOtherLines(t *testing.T) {
	t.Parallel()
	p := startJSON(t, "debug")
	address := strings.TrimPrefix(p.url, "http://")
	for _, bytes := range []string{
		"\x16\x03\x01\x00\x05\x01\x00\x00\x01\x00\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nGARBAGE GARBAGE",
		"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", "NOT HTTP\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
		_, _ = conn.Write([]byte(bytes))
		_, _ = conn.Read(make([]byte, 1))
		_ = conn.Close()
	}
	out, code := typed(t,
		[]string{"CLOCKD_DATABASE_URL=" + sqliteFile(t), "CLOCKD_LISTEN=" + address, "CLOCKD_LOG_FORMAT=json"}, "serve")
	lines := logLines(t, out)
	if last := lines[len(lines)-1]; code != exitFailure || last.Level != "ERROR" ||
		!strings.HasSuffix(last.Err, "listen on "+address+": bind: address already in use") {
		t.Errorf("exit code %d, last line %+v", code, last)
	}
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
	logLines(t, p.log.String())
}

// TestDebugLogTellsOfAlarms sets, cancels and rings. Each event has one line with the alarm, and no line has a payload
// or a detail of the wiring.
func TestDebugLogTellsOfAlarms(t *testing.T) {
	t.Parallel()
	p := startJSON(t, "debug")
	ring := p.listen("shop")
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-1"),
		map[string]any{"delay": "1h", "payload": "hidden"})
	p.must(http.StatusOK, http.MethodDelete, alarmPath("shop", "order-1"), nil)
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "order-2"),
		map[string]any{"delay": "0s", "payload": "hidden"})
	eventually(t, "the alarm rings", func() bool { return ring.number() == 1 })
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
	var events []string
	for _, l := range logLines(t, p.log.String()) {
		if l.BusinessID != "" {
			events = append(events, strings.TrimSpace(l.Msg+" "+l.Op+l.Outcome+" "+l.Application+"/"+l.BusinessID))
			if l.AlarmID == 0 || l.Level != "DEBUG" {
				t.Errorf("line without alarm id or level: %+v", l)
			}
		}
	}
	want := []string{
		"alarm request decided set shop/order-1", "alarm request decided cancel shop/order-1",
		"alarm request decided set shop/order-2",
		"ring ended confirmed shop/order-2",
	}
	if len(events) == len(want) { // a ring may end before the line about its set is written
		slices.Sort(events[2:])
	}
	if !slices.Equal(events, want) {
		t.Errorf("the log tells of\n%s\nwant\n%s", strings.Join(events, "\n"), strings.Join(want, "\n"))
	}
	for _, not := range []string{"hidden", "provided", "invoking", "OnStart"} {
		if strings.Contains(p.log.String(), not) {
			t.Errorf("the log has %q", not)
		}
	}
}

func TestProbesMaySendHEAD(t *testing.T) {
	t.Parallel()
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	for _, path := range []string{"/healthz", "/readyz"} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			res, err := http.DefaultClient.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			if res.StatusCode != http.StatusOK || res.ContentLength == 0 {
				t.Errorf("%s %s: status %d, %d bytes", method, path, res.StatusCode, res.ContentLength)
			}
		}
	}
}
