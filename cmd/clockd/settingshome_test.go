package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// An admin changes settings over the network as a person does in the database. Secrets stay, and do not leave the
// service. The audit names the token.
func TestAdminChangesSettingsOverTheNetwork(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			p := startOn(t, databaseURL, nil)
			admin := newToken(t, databaseURL, "boss", "--role=admin", "--applications=shop,hook")
			reader := newToken(t, databaseURL, "eyes", "--role=reader", "--applications=*")
			eventually(t, "tokens are needed, and both are known", func() bool {
				none, _ := p.try(t, "GET", "/v1/nodes", "")
				one, _ := p.try(t, "GET", "/v1/nodes", reader)
				other, _ := p.try(t, "GET", "/v1/nodes", admin)
				return none == 401 && one == 200 && other == 200
			})
			run := func(token string, args ...string) (string, int) {
				t.Helper()
				env := []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_TOKEN=" + token}
				return typed(t, env, append([]string{"application"}, args...)...)
			}
			want := func(token string, code int, fragments []string, args ...string) (out string) {
				t.Helper()
				out, got := run(token, args...)
				if got != code {
					t.Errorf("%v: exit code %d: %s", args, got, out)
				}
				for _, f := range fragments {
					if !strings.Contains(out, f) {
						t.Errorf("%v does not print %q:\n%s", args, f, out)
					}
				}
				return out
			}
			want(admin, 0, []string{"server: " + p.url, "shop has no settings", "no alarm and no setting of shop"},
				"show", "shop")
			want(admin, 0, []string{"version 1", "by boss", "max_rings      3"}, "set", "shop", "--max-rings=3")
			want(admin, 0, []string{"unchanged", "version 1"}, "set", "shop", "--max-rings=3")
			want(admin, 1, []string{"version 1, not 0", "look at them (clockd application show shop)"}, "set", "shop",
				"--max-rings=4", "--if-version=0")
			want(admin, 1, []string{"out_of_range", "field max_rings"}, "set", "shop", "--max-rings=0")
			want(admin, 1, []string{"does not cover"}, "set", "bank", "--max-rings=3")
			want(reader, 1, []string{"role reader", "admin"}, "set", "shop", "--max-rings=5")
			want("", 1, []string{"no token is given"}, "show", "shop")
			want(admin, exitUsage, []string{"--by is for changes in the database"}, "set", "shop", "--max-rings=5",
				"--by=me")
			want(admin, exitUsage, []string{"--secrets works on the database alone"}, "show", "shop", "--secrets")

			want(admin, 0, []string{"new signing secret: whsec_", "secrets 1"}, "set", "hook", "--target=webhook",
				"--webhook-url=https://a.example/x?key=hush", "--webhook-header=authorization=hush")
			want(admin, 0, []string{"new signing secret: whsec_", "concurrency 3, secrets 2"}, "set", "hook",
				"--webhook-secret=new", "--webhook=concurrency=3")
			eventually(t, "the node applies the settings", func() bool {
				out, _ := run(reader, "list")
				return strings.Contains(out, "hook")
			})
			for _, args := range [][]string{
				{"show", "hook"}, {"show", "hook", "--json"}, {"list"}, {"list", "--json"}, {"history", "hook"},
				{"history", "hook", "--json"},
			} {
				for _, token := range []string{admin, reader} {
					out := want(token, 0, []string{"hook"}, args...)
					if strings.Contains(out, "hush") || strings.Count(out, "whsec_") != strings.Count(out, "whsec_...") {
						t.Errorf("%v shows a secret:\n%s", args, out)
					}
				}
			}
			want(admin, 1, []string{"webhook.headers.authorization"}, "set", "hook", "--webhook-url=https://b.example/")
			stored := application(t, databaseURL, "show", "hook", "--secrets")
			if strings.Count(stored, "hush") != 2 || strings.Count(stored, "whsec_") != 2 ||
				strings.Contains(stored, "...") {
				t.Errorf("stored are %s", stored)
			}

			p.must2(t, admin, http.MethodPut, alarmPath("shop", "1"), `{"delay":"1h"}`)
			want(admin, 0, []string{"every node has confirmed"}, "pause", "shop")
			details := p.details("paused", statusWarning)
			if len(details) != 1 || !strings.Contains(details[0], "shop") {
				t.Errorf("readiness: %q", details)
			}
			want(admin, 0, []string{"paused         false"}, "resume", "shop")
			want(admin, 0, []string{"version 4", "max_rings      10 (default)"}, "reset", "shop")
			want(admin, 0, []string{"4 ", "boss"}, "history", "shop", "--limit=1")

			acts, code := typed(t, []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_TOKEN=" + admin}, "audit",
				"--application=shop", "--limit=9")
			const last = `boss 127.0.0.1 ID settings shop - {"version":3} {"version":4}`
			if code != 0 || !strings.Contains(requestIDs.ReplaceAllString(strings.Join(strings.Fields(acts), " "), "127.0.0.1 ID "), last) {
				t.Errorf("audit: %s", acts)
			}
		})
	}
}

// must2 sends a request with a token, and demands a status of 2xx.
func (p *process) must2(t *testing.T, token, method, path, body string) {
	t.Helper()
	if status, got := p.tryWith(t, method, path, token, body); status/100 != 2 {
		t.Fatalf("%s %s: %d %s", method, path, status, got)
	}
}

// Without tokens everyone who reaches the port may do everything, but not send an application's rings elsewhere.
func TestOpenServiceDoesNotChangeSettings(t *testing.T) {
	t.Parallel()
	p := startOn(t, sqliteFile(t), nil)
	out, code := typed(t, []string{"CLOCKD_SERVER=" + p.url}, "application", "set", "shop", "--target=pull")
	if code != 1 || !strings.Contains(out, "clockd token create") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if out, code := typed(t, []string{"CLOCKD_SERVER=" + p.url}, "application", "show", "shop"); code != 0 ||
		!strings.Contains(out, "shop has no settings") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

// The database counts if it is named, else the server. A flag counts more than the environment.
func TestApplicationCommandsFindTheSettings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env, args string
		want      string
	}{
		{"", "", "there is no database sqlite:"},
		{"CLOCKD_SERVER=http://127.0.0.1:1", "", "no response from the server"},
		{"CLOCKD_TOKEN=x", "", "there is no database sqlite:"},
		{"CLOCKD_TOKEN=x", "", "name it with --server"},
		{"CLOCKD_SERVER=", "", "there is no database sqlite:"},
		{"CLOCKD_SERVER=http://127.0.0.1:1 CLOCKD_DATABASE_URL=", "", "no response from the server"},
		{"CLOCKD_SERVER=http://127.0.0.1:1 CLOCKD_DATABASE_URL=sqlite:other.db", "--token=x", "--token is for a server"},
		{"CLOCKD_SERVER=http://127.0.0.1:1 CLOCKD_DATABASE_URL=sqlite:other.db", "", "there is no database sqlite:"},
		{"CLOCKD_DATABASE_URL=sqlite:other.db", "--server=http://127.0.0.1:1", "no response from the server"},
		{"CLOCKD_SERVER=http://127.0.0.1:1", "--database-url=sqlite:other.db", "there is no database sqlite:"},
		{"", "--database-url=sqlite:other.db --server=http://127.0.0.1:1", "give --database-url or --server, not both"},
		{"", "--database-url=sqlite:clockd.db --token=x", "--token is for a server"},
	} {
		args := append([]string{"application", "show", "shop"}, strings.Fields(c.args)...)
		out, code := typed(t, strings.Fields(c.env), args...)
		if code == 0 || !strings.Contains(out, c.want) {
			t.Errorf("%s %s: exit code %d: %s, want %q", c.env, c.args, code, out, c.want)
		}
	}
}

// A living node confirms a pause once it has read it. A dead node holds nothing any more after a time.
func TestNodesThatHaveNotConfirmedAreNamed(t *testing.T) {
	t.Parallel()
	const now = clock.Instant(1_000_000)
	lately, before := time.Now(), time.Now().Add(-time.Minute)
	for _, c := range []struct {
		node  confirmingNode
		begun time.Time
		want  string
	}{
		{confirmingNode{settings: 7, alive: true}, lately, ""},
		{confirmingNode{settings: 6, alive: true}, lately, "has not confirmed"},
		{confirmingNode{settings: 6, alive: true}, before, "has not confirmed"},
		{confirmingNode{settings: -1, alive: true}, lately, "runs build v0"},
		{confirmingNode{settings: 6, expires: now - 1}, lately, "has lost its leases"},
		{confirmingNode{settings: 6, expires: now - 1}, before, ""},
		{confirmingNode{settings: -1, expires: now - 10_001}, lately, ""},
	} {
		c.node.name, c.node.version = "a", "v0"
		seen := confirmations{changes: 7, now: now, nodes: []confirmingNode{c.node}}
		got := fmt.Sprint(seen.unconfirmed(7, c.begun))
		if (c.want == "") != (got == "[]") || !strings.Contains(got, c.want) {
			t.Errorf("%+v: %s, want %q", c.node, got, c.want)
		}
	}
}

// resumedHome is a place whose application is resumed while the nodes confirm its pause.
type resumedHome struct{ settingsHome }

func (resumedHome) nodes(context.Context) (*confirmations, error) { return &confirmations{}, nil }

func (resumedHome) get(context.Context, string) (*shownSettings, error) {
	return &shownSettings{Version: 3, Settings: []byte("{}")}, nil
}

func TestPauseIsNotConfirmedAfterAResume(t *testing.T) {
	t.Parallel()
	var pause applicationPauseCommand
	pause.Name = "shop"
	if err := pause.awaitNodes(t.Context(), resumedHome{}); err == nil || !strings.Contains(err.Error(), "version 3") {
		t.Errorf("%v", err)
	}
}

// A change whose response was lost is told so. The secret that it made is printed all the same.
func TestUnconfirmedChangeIsTold(t *testing.T) {
	t.Parallel()
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			panic(http.ErrAbortHandler)
		}
		_, _ = io.WriteString(w, `{"application":"shop","version":0,"settings":{},"unreadable":null,"effective":{}}`)
	})
	server := httptest.NewServer(h)
	defer server.Close()
	out, code := typed(t, []string{"CLOCKD_SERVER=" + server.URL}, "application", "set", "shop",
		"--webhook-url=https://a.example/")
	if code != 1 || !strings.Contains(out, "the settings may have changed") ||
		!strings.Contains(out, "new signing secret, if the settings have changed: whsec_") {
		t.Errorf("exit code %d: %s", code, out)
	}
}
