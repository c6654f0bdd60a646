package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

// scriptedServer is a server with prepared responses. It returns one after the other, and records the requests.
type scriptedServer struct {
	mu        sync.Mutex
	responses []string // remaining responses, each "status body"
	asked     []string // requests, each "method path body", with If-Match if it was sent
}

func (a *scriptedServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	body, _ := io.ReadAll(r.Body)
	asked := strings.TrimSpace(fmt.Sprintf("%s %s %s", r.Method, r.URL.EscapedPath(), body))
	if g := r.Header.Get("If-Match"); g != "" {
		asked += " if " + g
	}
	a.asked = append(a.asked, asked)
	status, response := 500, "{}"
	if len(a.responses) > 0 {
		_, _ = fmt.Sscan(a.responses[0], &status)
		response, a.responses = a.responses[0][4:], a.responses[1:]
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, response)
}

// runClient runs clockd against a server with these responses. It returns the output, the exit code and the requests.
func runClient(t *testing.T, responses []string, args ...string) (out string, code int, asked []string) {
	t.Helper()
	a := &scriptedServer{responses: responses}
	server := httptest.NewServer(a)
	defer server.Close()
	b, err := command([]string{"CLOCKD_SERVER=" + server.URL}, args...).CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return string(b), code, a.asked
}

const (
	kickedAlarm = `200 {"application":"shop","business_id":"a/b","state":"scheduled","generation":3,"ring_at":"2030-01-02T00:00:00.000Z","retry_times":0,"last_error":"buried: no stock",` +
		`"answer":"bury","answered_by":"worker-7","answered_at":"2030-01-03T00:00:00.000Z","attempts":[{"time":"2030-01-04T00:00:00.000Z","outcome":"buried","error":"no stock","by":"worker-7"}]}`
	repeatingAlarm = `200 {"application":"shop","business_id":"a","state":"scheduled","generation":1,"ring_at":"2030-01-03T01:30:07.000Z","next_try_time":"2030-01-03T01:30:07.000Z",` +
		`"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin","times":5,"jitter":"30s","latest_after":"10m","missed":"once","overlap":"skip","dst":"ring_once"},` +
		`"occurrence":{"number":3,"at":"2030-01-03T01:30:00.000Z","next_at":"2030-01-04T01:30:00.000Z","rung":1,"missed":1,"skipped":0,"failed":0}}`
	someNodes = `200 {"self":"ONE","database_time":"2030-01-10T00:00:00.000Z","nodes":[` +
		`{"name":"b","incarnation":"ONE","address":"10.0.0.2:8080","version":"1.2","started_at":"2030-01-02T00:00:00.000Z","expires_at":"2030-01-05T00:00:00.000Z","alive":true,"name_shared":true,"shards":[0,1,2,5],"applications":[]},` +
		`{"name":"b","incarnation":"TWO","address":"","version":"","started_at":"2030-01-03T00:00:00.000Z","expires_at":"2030-01-05T00:00:00.000Z","alive":true,"name_shared":true,"shards":[],"applications":["bank","shop"]},` +
		`{"name":"a","incarnation":"OLD","address":"x","version":"1.1","started_at":"2030-01-01T00:00:00.000Z","expires_at":"2030-01-04T00:00:00.000Z","alive":false,"name_shared":false,"shards":[],"applications":[]}],` +
		`"shards":[{"shard":0,"node":"b"},{"shard":1,"node":"b"},{"shard":2,"node":"b"},{"shard":3,"node":null},{"shard":4,"node":null},{"shard":5,"node":"b"}]}`
)

func TestClientCommandsAdviseWhenNoServerListens(t *testing.T) {
	t.Parallel()
	out, err := command([]string{"CLOCKD_SERVER=http://u:secret@127.0.0.1:1"}, "get", "shop", "x").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "connection refused\nis clockd running there?") ||
		strings.Contains(string(out), "secret") {
		t.Errorf("%v, printed %s", err, out)
	}
	if out, err = command([]string{"CLOCKD_SERVER=u:secret@h"}, "get", "shop", "x").CombinedOutput(); err == nil ||
		strings.Contains(string(out), "secret") ||
		!strings.Contains(string(out), "CLOCKD_SERVER") {
		t.Errorf("%v, printed %s", err, out)
	}
}

func TestClientCommandsSendRequestsAndPrintResponses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args, responses []string
		code            int
		asked           []string
		out             []string // each must be in the output
	}{
		"kick one": {
			args: []string{"kick", "shop", "a/b", "--generation", "3"}, responses: []string{kickedAlarm},
			asked: []string{`POST /v1/applications/shop/alarms/a%2Fb/kick if "3"`},
			out: []string{"shop/a/b is scheduled", "answered with bury by worker-7 at 2030-01-03T00:00:00.000Z",
				"2030-01-04T00:00:00.000Z buried by worker-7 no stock"},
		},
		"discard one": {
			args:      []string{"discard", "shop", ".."},
			responses: []string{`409 {"status":409,"code":"not_dead","detail":"the alarm is rung"}`}, code: exitFailure,
			asked: []string{`POST /v1/applications/shop/alarms/%2E%2E/discard`},
			out:   []string{"the alarm is rung (not_dead)"},
		},
		"kick many": {
			args: []string{"kick", "shop", "--prefix", "order-", "--state", "dead", "--limit", "25"},
			responses: []string{
				`200 {"kicked":10,"failed":2,"cursor":"c1"}`, `200 {"kicked":13,"failed":0,"cursor":"c2"}`,
			},
			asked: []string{
				`POST /v1/applications/shop/kick {"state":["dead"],"prefix":"order-","limit":25}`,
				`POST /v1/applications/shop/kick {"state":["dead"],"prefix":"order-","limit":13,"cursor":"c1"}`,
			},
			out: []string{"kicked 23, not 2: they changed meanwhile; there may be more"},
		},
		"discard all": {
			args: []string{"discard", "shop", "--state", "dead,expired", "--limit", "0", "--json"},
			responses: []string{`200 {"discarded":10000,"failed":0,"cursor":"c1"}`,
				`200 {"discarded":3,"failed":0,"cursor":null}`},
			asked: []string{
				`POST /v1/applications/shop/discard {"state":["dead","expired"],"limit":10000}`,
				`POST /v1/applications/shop/discard {"state":["dead","expired"],"limit":10000,"cursor":"c1"}`,
			},
			out: []string{`{"discarded":10003,"failed":0,"more":false}`},
		},
		"kick what": {args: []string{"kick", "shop"}, code: exitUsage,
			out: []string{"give a business id, --prefix or --state"}},
		"kick which": {
			args: []string{"kick", "shop", "a", "--prefix", "b"}, code: exitUsage, out: []string{"not both"},
		},
		"kick until it fails": {
			args: []string{"kick", "shop", "--state", "dead", "--limit", "0"}, code: exitFailure,
			responses: []string{`200 {"kicked":5,"failed":0,"cursor":"c1"}`,
				`503 {"code":"unavailable","detail":"gone"}`, `503 {"code":"unavailable","detail":"gone"}`,
				`503 {"code":"unavailable","detail":"gone"}`},
			asked: []string{
				`POST /v1/applications/shop/kick {"state":["dead"],"limit":10000}`,
				`POST /v1/applications/shop/kick {"state":["dead"],"limit":10000,"cursor":"c1"}`,
				`POST /v1/applications/shop/kick {"state":["dead"],"limit":10000,"cursor":"c1"}`,
				`POST /v1/applications/shop/kick {"state":["dead"],"limit":10000,"cursor":"c1"}`,
			},
			out: []string{"after 5 were kicked: gone (unavailable"},
		},
		"nodes": {
			args: []string{"nodes"}, responses: []string{someNodes}, asked: []string{"GET /v1/nodes"},
			out: []string{
				"NODE  INCARNATION  STATE                                ADDRESS        VERSION  STARTED                   SHARDS         STREAMS\n" +
					"a     OLD          gone since 2030-01-04T00:00:00.000Z  x              1.1      2030-01-01T00:00:00.000Z  0       -      -\n" +
					"b *   ONE          alive                                10.0.0.2:8080  1.2      2030-01-02T00:00:00.000Z  4       0-2,5  -\n" +
					"b     TWO          alive                                -              -        2030-01-03T00:00:00.000Z  0       -      bank,shop\n",
				"* responded, at 2030-01-10T00:00:00.000Z by the database's clock\n",
				"2 of 6 shards have no owner: 3-4\n", `several processes are named "b"`,
			},
		},
		"set at most once": {
			args:      []string{"set", "shop", "a/b", "--in", "5s", "--delivery", "at_most_once"},
			responses: []string{kickedAlarm},
			asked:     []string{`PUT /v1/applications/shop/alarms/a%2Fb {"delay":5000,"delivery":"at_most_once"}`},
			out:       []string{"shop/a/b is scheduled"},
		},
		"set with all flags": {
			args: []string{
				"set", "shop", "a", "--at", "2030-01-01T01:00:00+01:00", "--latest", "1893456000001", "--payload",
				`{"a" : 1}`, "--ack-timeout", "1m30s", "--max-rings", "3",
				"--priority", "9", "--generation", "2", "--content-type", "x/y",
			},
			responses: []string{kickedAlarm},
			asked: []string{`PUT /v1/applications/shop/alarms/a {"ring_at":1893456000000,"latest_ring_at":1893456000001,"content_type":"x/y",` +
				`"ack_timeout":90000,"max_rings":3,"priority":9,"payload":{"a" : 1}} if "2"`},
		},
		"set without answers": {
			args: []string{"set", "shop", "a", "--in", "5s", "--ack-timeout", "0s", "--generation", "0", "--priority", "0"}, responses: []string{kickedAlarm},
			asked: []string{`PUT /v1/applications/shop/alarms/a {"delay":5000,"ack_timeout":0} if "0"`},
		},
		"set with retries": {
			args:      []string{"set", "shop", "a", "--in", "5s", "--retry", "initial=2s,factor=1,cap=7d,limit=3"},
			responses: []string{kickedAlarm},
			asked:     []string{`PUT /v1/applications/shop/alarms/a {"delay":5000,"retry":{"initial":2000,"factor":1,"cap":604800000,"limit":3}}`},
		},
		"set retries unlimited": {
			args: []string{"set", "shop", "a", "--in", "5s", "--retry", "limit=none"}, responses: []string{kickedAlarm},
			asked: []string{`PUT /v1/applications/shop/alarms/a {"delay":5000,"retry":{"limit":null}}`},
		},
		"set unknown part": {args: []string{"set", "shop", "a", "--in", "5s", "--retry", "first=2s"},
			code: exitUsage, out: []string{`unknown part "first"; known are initial`}},
		"set wait of 0": {args: []string{"set", "shop", "a", "--in", "5s", "--retry", "cap=0s"}, code: exitUsage,
			out: []string{"--retry: cap: must be more than 0"}},
		"set limit of 1.5": {args: []string{"set", "shop", "a", "--in", "5s", "--retry", "limit=1.5"},
			code: exitUsage, out: []string{"limit must be a whole number"}},
		"set factor of 0": {args: []string{"set", "shop", "a", "--in", "5s", "--retry", "factor=0"},
			code: exitUsage, out: []string{"factor must be a number"}},
		"set without rings": {args: []string{"set", "shop", "a", "--in", "5s", "--max-rings", "0"}, code: exitUsage,
			out: []string{"--max-rings must be at least 1"}},
		"set zero times": {args: []string{"set", "shop", "a", "--every", "1h", "--times", "0"}, code: exitUsage,
			out: []string{"--times must be at least 1"}},
		"set without period": {args: []string{"set", "shop", "a", "--every", "0s"}, code: exitUsage,
			out: []string{"--every must be more than 0"}},
		"set none missed": {args: []string{"set", "shop", "a", "--every", "1h", "--missed", "all", "--missed-limit", "0"}, code: exitUsage, out: []string{"--missed-limit must be"}},
		"set latest after 0": {args: []string{"set", "shop", "a", "--every", "1h", "--latest-after", "0s"},
			code: exitUsage, out: []string{"--latest-after must be"}},
		"set jitter once": {args: []string{"set", "shop", "a", "--in", "5s", "--jitter", "0s"}, code: exitUsage,
			out: []string{"need --cron or --every"}},
		"forecast of no steps": {args: []string{"forecast", "--count", "0"}, code: exitUsage,
			out: []string{"--count must be at least 1"}},
		"forecast of no applications": {args: []string{"forecast", "--applications", "0"}, code: exitUsage,
			out: []string{"--applications must be at least 1"}},
		"listen for no ring": {args: []string{"listen", "shop", "--count", "0"}, code: exitUsage,
			out: []string{"--count must be at least 1"}},
		"kick at generation 0": {
			args: []string{"kick", "shop", "--prefix", "b", "--generation", "0"}, code: exitUsage,
			out: []string{"--generation goes with a business id"},
		},
		"set if absent": {
			args:      []string{"set", "shop", "a", "--in", "7d", "--if", "absent", "--text", "hi"},
			responses: []string{`412 {"code":"condition_failed","detail":"it exists"}`},
			asked:     []string{`PUT /v1/applications/shop/alarms/a {"delay":604800000,"if":"absent","text":"hi"}`},
			code:      exitFailure,
			out:       []string{"clockd: it exists (condition_failed)\n"},
		},
		"set by cron": {
			args: []string{
				"set", "shop", "a", "--cron", "30 2 * * *", "--time-zone", "Europe/Berlin", "--until", "1893456000000",
				"--from", "1577836800000", "--skip-dates", "2029-12-25,2029-12-26",
				"--times", "5", "--jitter", "30s",
				"--latest-after", "10m", "--missed", "all", "--missed-limit", "7", "--overlap", "queue_one",
			},
			responses: []string{repeatingAlarm},
			asked: []string{`PUT /v1/applications/shop/alarms/a {"repeat":{"cron":"30 2 * * *","time_zone":"Europe/Berlin","from":1577836800000,"until":1893456000000,` +
				`"skip_dates":["2029-12-25","2029-12-26"],"times":5,"jitter":30000,` +
				`"latest_after":600000,"missed":"all","missed_limit":7,"overlap":"queue_one"}}`},
			out: []string{
				"repeats: 30 2 * * * Europe/Berlin, jitter 30s, latest after 10m, missed once, overlap skip, 5 times\n",
				"occurrence 3 at 2030-01-03T01:30:00.000Z, the next one at 2030-01-04T01:30:00.000Z; 1 rung, 1 missed, 0 skipped, 0 failed\n",
			},
		},
		"set by period": {
			args:      []string{"set", "shop", "a", "--every", "1h", "--anchor", "1970-01-01T00:00:00Z"},
			responses: []string{kickedAlarm},
			asked:     []string{`PUT /v1/applications/shop/alarms/a {"repeat":{"every":3600000,"anchor":0}}`},
		},
		"set by cron and time": {args: []string{"set", "shop", "a", "--cron", "@daily", "--in", "5s"}, code: exitUsage,
			out: []string{"--cron", "--in"}},
		"set in a zone": {args: []string{"set", "shop", "a", "--in", "5s", "--time-zone", "Europe/Berlin"},
			code: exitUsage, out: []string{"goes with --at or --cron"}},
		"set at a local time": {
			args: []string{"set", "shop", "a", "--at", "2027-03-28T02:30", "--time-zone", "Europe/Berlin"},
			responses: []string{`201 {"application":"shop","business_id":"a","state":"scheduled","generation":1,"ring_at":"2027-03-28T01:00:00.000Z",` +
				`"local_ring_at":"2027-03-28T02:30:00","time_zone":"Europe/Berlin"}`},
			asked: []string{`PUT /v1/applications/shop/alarms/a {"ring_at":"2027-03-28T02:30","time_zone":"Europe/Berlin"}`},
			out:   []string{"2027-03-28T01:00:00.000Z", "local time: 2027-03-28T02:30:00 Europe/Berlin\n"},
		},
		"occurrences": {
			args:      []string{"occurrences", "shop", "a/b", "--count", "5"},
			responses: []string{`200 {"time_zone_data":"2025c","occurrences":[{"number":3,"at":"2030-01-03T01:30:00.000Z","local":"2030-01-03T02:30:00+01:00","ring_at":"2030-01-03T01:30:07.000Z"}]}`},
			asked:     []string{`GET /v1/applications/shop/alarms/a%2Fb/occurrences`},
			out:       []string{"3       2030-01-03T01:30:00.000Z  2030-01-03T02:30:00+01:00  2030-01-03T01:30:07.000Z\ntime-zone data 2025c\n"},
		},
		"list repeating": {
			args:      []string{"list", "shop"},
			responses: []string{`200 {"alarms":[` + repeatingAlarm[len("200 "):] + `],"next_cursor":null}`},
			asked:     []string{"GET /v1/applications/shop/alarms"}, out: []string{"30 2 * * * Europe/Berlin"},
		},
		"set without unit": {args: []string{"set", "shop", "a", "--in", "5"}, code: exitUsage,
			out: []string{`--in: duration "5" has no unit: write "5s"`}},
		"set at no time": {args: []string{"set", "shop", "a", "--at", "2030-01-01T00:00:00"}, code: exitUsage,
			out: []string{"--at: ", "has no offset"}},
		"set with two conditions": {args: []string{"set", "shop", "a", "--in", "5s", "--if", "later", "--generation", "2"}, code: exitUsage, out: []string{"not both"}},
		"set no JSON": {args: []string{"set", "shop", "a", "--in", "5s", "--payload", "hi"},
			code: exitUsage, out: []string{"--text"}},
		"get of another program": {
			args: []string{"get", "shop", "a"}, responses: []string{`200 <html>`},
			asked: []string{"GET /v1/applications/shop/alarms/a"}, code: exitFailure,
			out: []string{"is not clockd: status 200"},
		},
		"list": {
			args: []string{"list", "shop", "--limit", "3", "--state", "dead,rung"},
			responses: []string{
				`200 {"alarms":[{"business_id":"a","state":"dead","ring_at":"2030-01-01T00:00:00.000Z","retry_times":2}],"next_cursor":"c"}`,
				`200 {"alarms":[{"business_id":"b","state":"rung","next_try_time":"2030-01-02T00:00:00.000Z"}],"next_cursor":null}`,
			},
			asked: []string{"GET /v1/applications/shop/alarms", "GET /v1/applications/shop/alarms"},
			out:   []string{"a            dead   2030-01-01T00:00:00.000Z  -                         2       -        \n", "2030-01-02T00:00:00.000Z"},
		},
		"set once": {args: []string{"set", "shop", "a", "--in", "5s", "--delivery", "once"}, code: exitUsage,
			out: []string{"at_most_once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code, asked := runClient(t, c.responses, c.args...)
			if code != c.code || !slices.Equal(asked, c.asked) {
				t.Errorf("exit code %d, want %d; asked\n%s, want\n%s; printed %s", code, c.code,
					strings.Join(asked, "\n"), strings.Join(c.asked, "\n"), out)
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
		})
	}
}

// TestDescribeShowsPriorityAndAckTimeout leaves out the options of an alarm that has the defaults.
func TestDescribeShowsPriorityAndAckTimeout(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		options client.Alarm
		want    string // lines after the first one
	}{
		{client.Alarm{MaxRings: 10}, ""},
		{client.Alarm{MaxRings: 10, Priority: 9}, "  priority: 9\n"},
		{client.Alarm{MaxRings: 3, AckTimeout: 90 * time.Second}, "  ack timeout: 1m30s, max rings: 3\n"},
		{client.Alarm{MaxRings: 10, AckTimeout: time.Hour, Priority: 1},
			"  priority: 1\n  ack timeout: 1h, max rings: 10\n"},
	} {
		if _, rest, _ := strings.Cut(describe(&c.options), "\n"); rest != c.want {
			t.Errorf("%+v: %q, want %q", c.options, rest, c.want)
		}
	}
}

// TestDescribeSaysWhenAnAlarmRangOrEnded describes an alarm in each state. Of an alarm that waits it says when the alarm
// is to ring.
func TestDescribeSaysWhenAnAlarmRangOrEnded(t *testing.T) {
	t.Parallel()
	due := time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)
	rang, ended := due.Add(time.Second), due.Add(time.Hour)
	const dueText, rangText, endedText = "2030-01-02T00:00:00.000Z", "2030-01-02T00:00:01.000Z", "2030-01-02T01:00:00.000Z"
	for _, c := range []struct {
		state            client.State
		rungAt, finished time.Time
		want             string // text between the state and the generation
		more             string // text after the generation
	}{
		{client.Scheduled, time.Time{}, time.Time{}, "to ring at " + dueText, ""},
		{client.Scheduled, rang, time.Time{}, "to ring at " + dueText, ", last rang at " + rangText},
		{client.Paused, time.Time{}, time.Time{}, "to ring at " + dueText, ""},
		{client.Ringing, time.Time{}, time.Time{}, "to ring at " + dueText, ""}, // a claim of two phases
		{client.Ringing, rang, time.Time{}, "rang at " + rangText, ""},
		{client.Rung, rang, ended, "rang at " + rangText, ""},
		{client.Expired, time.Time{}, ended, "ended at " + endedText + ", was to ring at " + dueText, ""},
		{client.Dead, rang, ended, "ended at " + endedText + ", was to ring at " + dueText,
			", last rang at " + rangText},
		{client.Cancelled, time.Time{}, ended, "ended at " + endedText + ", was to ring at " + dueText, ""},
	} {
		a := &client.Alarm{
			Application: "shop", BusinessID: "x", State: c.state, Generation: 2, RingAt: due, RungAt: c.rungAt,
			FinishedAt: c.finished,
		}
		want := fmt.Sprintf("shop/x is %s, %s, generation 2%s\n", c.state, c.want, c.more)
		if got := describe(a); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
