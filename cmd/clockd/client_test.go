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

// client runs clockd against a server with these responses. It returns the output, the exit code and the requests.
func client(t *testing.T, responses []string, args ...string) (out string, code int, asked []string) {
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
	kickedAlarm = `200 {"application":"shop","business_id":"a/b","state":"scheduled","generation":3,"ring_at":"T1","retry_times":0,"last_error":"buried: no stock",` +
		`"answer":"bury","answered_by":"worker-7","answered_at":"T2","attempts":[{"time":"T3","outcome":"buried","error":"no stock","by":"worker-7"}]}`
	someNodes = `200 {"self":"ONE","database_time":"T9","nodes":[` +
		`{"name":"b","incarnation":"ONE","address":"10.0.0.2:8080","version":"1.2","started_at":"T1","expires_at":"T4","alive":true,"name_shared":true,"shards":[0,1,2,5],"applications":[]},` +
		`{"name":"b","incarnation":"TWO","address":"","version":"","started_at":"T2","expires_at":"T4","alive":true,"name_shared":true,"shards":[],"applications":["bank","shop"]},` +
		`{"name":"a","incarnation":"OLD","address":"x","version":"1.1","started_at":"T0","expires_at":"T3","alive":false,"name_shared":false,"shards":[],"applications":[]}],` +
		`"shards":[{"shard":0,"node":"b"},{"shard":1,"node":"b"},{"shard":2,"node":"b"},{"shard":3,"node":null},{"shard":4,"node":null},{"shard":5,"node":"b"}]}`
)

func TestClientCommandsSendRequestsAndPrintResponses(t *testing.T) {
	for name, c := range map[string]struct {
		args, responses []string
		code            int
		asked           []string
		out             []string // each must be in the output
	}{
		"kick one": {
			args: []string{"kick", "shop", "a/b", "--generation", "3"}, responses: []string{kickedAlarm},
			asked: []string{`POST /v1/applications/shop/alarms/a%2Fb/kick if "3"`},
			out:   []string{"shop/a/b is scheduled", "answered with bury by worker-7 at T2", "T3 buried by worker-7 no stock"},
		},
		"discard one": {
			args: []string{"discard", "shop", ".."}, responses: []string{`409 {"status":409,"code":"not_dead","detail":"the alarm is rung"}`}, code: exitFailure,
			asked: []string{`POST /v1/applications/shop/alarms/%2E%2E/discard`}, out: []string{"the alarm is rung (not_dead)"},
		},
		"kick many": {
			args: []string{"kick", "shop", "--prefix", "order-", "--state", "dead", "--limit", "25"},
			responses: []string{
				`200 {"kicked":10,"failed":2,"cursor":"c1"}`, `200 {"kicked":13,"failed":0,"cursor":"c2"}`,
			},
			asked: []string{
				`POST /v1/applications/shop/kick {"cursor":"","limit":25,"prefix":"order-","state":["dead"]}`,
				`POST /v1/applications/shop/kick {"cursor":"c1","limit":13,"prefix":"order-","state":["dead"]}`,
			},
			out: []string{"kicked 23, not 2: they changed meanwhile; there may be more"},
		},
		"discard all": {
			args:      []string{"discard", "shop", "--state", "dead,expired", "--limit", "0", "--json"},
			responses: []string{`200 {"discarded":10000,"failed":0,"cursor":"c1"}`, `200 {"discarded":3,"failed":0,"cursor":null}`},
			asked: []string{
				`POST /v1/applications/shop/discard {"cursor":"","limit":10000,"prefix":"","state":["dead","expired"]}`,
				`POST /v1/applications/shop/discard {"cursor":"c1","limit":10000,"prefix":"","state":["dead","expired"]}`,
			},
			out: []string{`{"discarded":10003,"failed":0,"more":false}`},
		},
		"kick what": {args: []string{"kick", "shop"}, code: exitFailure, out: []string{"give a business id, --prefix or --state"}},
		"kick which": {
			args: []string{"kick", "shop", "a", "--prefix", "b"}, code: exitFailure, out: []string{"not both"},
		},
		"kick until it fails": {
			args: []string{"kick", "shop", "--state", "dead", "--limit", "0"}, code: exitFailure,
			responses: []string{`200 {"kicked":5,"failed":0,"cursor":"c1"}`, `503 {"code":"unavailable","detail":"gone"}`},
			asked: []string{
				`POST /v1/applications/shop/kick {"cursor":"","limit":10000,"prefix":"","state":["dead"]}`,
				`POST /v1/applications/shop/kick {"cursor":"c1","limit":10000,"prefix":"","state":["dead"]}`,
			},
			out: []string{"after 5 were kicked: gone (unavailable"},
		},
		"nodes": {
			args: []string{"nodes"}, responses: []string{someNodes}, asked: []string{"GET /v1/nodes"},
			out: []string{
				"NODE  INCARNATION  STATE          ADDRESS        VERSION  STARTED  SHARDS         STREAMS\n" +
					"a     OLD          gone since T3  x              1.1      T0       0       -      -\n" +
					"b *   ONE          alive          10.0.0.2:8080  1.2      T1       4       0-2,5  -\n" +
					"b     TWO          alive          -              -        T2       0       -      bank,shop\n",
				"* responded, at T9 by the database's clock\n", "2 of 6 shards have no owner: 3-4\n", `several processes are named "b"`,
			},
		},
		"set at most once": {
			args: []string{"set", "shop", "a/b", "--in", "5s", "--delivery", "at_most_once"}, responses: []string{kickedAlarm},
			asked: []string{`PUT /v1/applications/shop/alarms/a%2Fb {"delay":"5s","delivery":"at_most_once"}`}, out: []string{"shop/a/b is scheduled"},
		},
		"set once": {args: []string{"set", "shop", "a", "--in", "5s", "--delivery", "once"}, code: exitUsage, out: []string{"at_most_once"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, code, asked := client(t, c.responses, c.args...)
			if code != c.code || !slices.Equal(asked, c.asked) {
				t.Errorf("exit code %d, want %d; asked\n%s, want\n%s; printed %s", code, c.code, strings.Join(asked, "\n"), strings.Join(c.asked, "\n"), out)
			}
			for _, want := range c.out {
				if !strings.Contains(out, want) {
					t.Errorf("%q is missing in\n%s", want, out)
				}
			}
		})
	}
}
