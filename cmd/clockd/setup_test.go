package main

import (
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMissingFolderEndsTheStart names a SQLite file in a folder that does not exist. Waiting would not help.
func TestMissingFolderEndsTheStart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "none")
	s := &shell{t,
		[]string{"CLOCKD_DATABASE_URL=sqlite:" + folder + "/clockd.db", "CLOCKD_START_TIMEOUT=1h",
			"CLOCKD_LISTEN=127.0.0.1:0"}}
	for _, command := range []string{"serve", "migrate"} {
		if out := s.run(1, command); !strings.Contains(out, `the folder "`+folder+`" does not exist`) ||
			strings.Contains(out, "not available yet") {
			t.Errorf("clockd %s printed %s", command, out)
		}
	}
}

// TestWrongDatabaseIsNamedAtTheStart starts with an unknown user, and with a database that does not exist. The log says
// that waiting hardly helps, and the end of the start says how long it has waited.
func TestWrongDatabaseIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			right := e.open(t)
			wrong := parse(t, right)
			wrong.User = url.UserPassword("stranger", "wrong-password")
			missing := parse(t, right)
			missing.Path += "_missing"
			for _, u := range []string{wrong.String(), missing.String()} {
				p := starting(t, "CLOCKD_DATABASE_URL="+u)
				eventually(t, "the log tells of "+u, func() bool {
					return strings.Contains(p.log.String(),
						"level=ERROR msg=\"the database does not let clockd in: waiting helps only if")
				})
				if strings.Contains(p.log.String(), "wrong-password") {
					t.Errorf("the log has the password: %s", p.log)
				}
				p.kill()
			}
			out, code := typed(t, []string{"CLOCKD_DATABASE_URL=" + wrong.String(), "CLOCKD_LISTEN=127.0.0.1:0", "CLOCKD_START_TIMEOUT=10ms"}, "serve")
			_, last, _ := strings.Cut(out, "\nclockd: ")
			if code != exitFailure || !strings.Contains(last, "gave up after 10ms (CLOCKD_START_TIMEOUT): ") ||
				strings.Contains(out, "initialize") || strings.Contains(out, "folder") {
				t.Errorf("exit code %d, printed %s", code, out)
			}
		})
	}
}

// TestNodeRespondsBeforeItsDatabase starts a node whose database is away. Its port says so until the database is there.
func TestNodeRespondsBeforeItsDatabase(t *testing.T) {
	t.Parallel()
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			g, through := newGate(t, e.open(t))
			g.set(true)
			p := starting(t, "CLOCKD_DATABASE_URL="+through)
			address := regexp.MustCompile(`msg=starting .*address=(\S+)`)
			eventually(t, "the log has the address", func() bool { return address.MatchString(p.log.String()) })
			p.url = "http://" + address.FindStringSubmatch(p.log.String())[1]
			eventually(t, "/readyz has the reason", func() bool {
				a, err := p.do(http.MethodGet, "/readyz", nil)
				if err != nil || a.Status != http.StatusServiceUnavailable || a.Ready {
					t.Fatalf("/readyz is %+v, %v", a, err)
				}
				return len(a.Checks) == 2 && a.Checks[1].Name == "database" && a.Checks[1].Status == statusFailing &&
					strings.Contains(a.Checks[1].Detail, "not available")
			})
			live, err := http.Head(p.url + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			if _ = live.Body.Close(); live.StatusCode != http.StatusOK {
				t.Errorf("/healthz is %s", live.Status)
			}
			a, err := p.do(http.MethodPut, alarmPath("shop", "early"), map[string]any{"delay": "1h"})
			if err != nil || a.Status != http.StatusServiceUnavailable || a.Code != "unavailable" ||
				a.RetryAfter != "1" {
				t.Errorf("a set is %+v, %v", a, err)
			}
			stopped := starting(t, "CLOCKD_DATABASE_URL="+through)
			eventually(t, "the second node waits",
				func() bool { return strings.Contains(stopped.log.String(), "not available yet") })
			if err := stopped.terminate(); err != nil {
				t.Errorf("a stop during the start: %v", err)
			}
			g.set(false)
			p.awaitListening()
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "early"), map[string]any{"delay": "1h"})
		})
	}
}
