package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
)

// TestCommandsRemarkUnknownApplications runs commands for an application without alarms. The server lists the
// application shop, whose rings go to a webhook, or it refuses the list as an old server does, or the token does not
// cover the application.
func TestCommandsRemarkUnknownApplications(t *testing.T) {
	t.Parallel()
	known := map[string]string{"/v1/applications": `200 {"applications":[{"application":"shop","target":"webhook"}]}`}
	nowhere := map[string]string{"/v1/applications": `200 {"applications":[{"application":"shop","target":null}]}`}
	old := map[string]string{"/v1/applications": `404 {"code":"unknown_path"}`}
	uncovered := map[string]string{"/v1/applications": `200 {"applications":[]}`,
		"/v1/applications/shpo/alarms": `403 {"code":"forbidden"}`}
	const misspelt = "no alarm and no setting of shpo is known yet, did you mean shop?\n"
	for _, c := range []struct {
		args      string
		responses map[string]string
		want      string // end of the output
		remarked  bool
	}{
		{"list shpo", known, "WHY IT WAITS\n" + misspelt, true},
		{"list shpo --json", known, misspelt, true},
		{"list bank", known, "no alarm and no setting of bank is known yet\n", true},
		{"list shop", known, "WHY IT WAITS\n", false},
		{"list shpo", old, "WHY IT WAITS\n", false},
		{"get shpo a", known, "(unknown_alarm)\n" + misspelt, true},
		{"cancel shpo a", known, "(unknown_alarm)\n" + misspelt, true},
		{"pause shpo a", known, "(unknown_alarm)\n" + misspelt, true},
		{"events shpo a", known, "(unknown_alarm)\n" + misspelt, true},
		{"ack 1.1.1 --application shpo", known, "(unknown_alarm)\n" + misspelt, true},
		{"get shpo a", old, "(unknown_alarm)\n", false},
		{"get shpo a", uncovered, "(unknown_alarm)\n", false},
		{"reserve shpo", known, misspelt, true},
		{"kick shpo --state dead", known, "kicked 0\n" + misspelt, true},
		{"listen shpo", known, misspelt + "clockd: refused (forbidden)\n", true},
		{"listen shop", known,
			"rings of shop go to webhook, so clockd listen prints only rings of alarms that name the target stream; to send all to the stream: clockd application set shop --target stream\nclockd: refused (forbidden)\n", false},
		{"listen shop", nowhere,
			"the node does not have the target of shop, so its alarms wait: clockd applications says more\nclockd: refused (forbidden)\n", false},
		{"listen shpo", uncovered, "Ctrl-C ends it\nclockd: refused (forbidden)\n", false},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			response, scripted := c.responses[r.URL.Path]
			switch path := r.URL.Path; {
			case scripted:
			case strings.HasSuffix(path, "/rings"):
				response = `403 {"code":"forbidden","detail":"refused"}`
			case strings.HasSuffix(path, "/alarms"):
				response = `200 {"alarms":[]}`
			case strings.HasSuffix(path, "/kick") || strings.HasSuffix(path, "/reserve"):
				response = `200 {"kicked":0,"rings":[]}`
			default:
				response = `404 {"code":"unknown_alarm","detail":"there is no such alarm"}`
			}
			status, body, _ := strings.Cut(response, " ")
			code, _ := strconv.Atoi(status)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}))
		out, _ := typed(t, []string{"CLOCKD_SERVER=" + server.URL}, strings.Fields(c.args)...)
		server.Close()
		if !strings.HasSuffix(out, c.want) || strings.Contains(out, "is known yet") != c.remarked {
			t.Errorf("clockd %s printed\n%s\nwant\n%s", c.args, out, c.want)
		}
	}
}

// TestTablesHaveNoHeadingBeforeAnError lists at an address where nothing listens.
func TestTablesHaveNoHeadingBeforeAnError(t *testing.T) {
	t.Parallel()
	env := []string{"CLOCKD_SERVER=http://" + freeAddress(t)}
	for _, args := range []string{"list shop", "applications", "applications shop", "applications --counts", "audit", "bulk list", "nodes", "events shop a", "search a", "forecast", "stats"} {
		if out, code := typed(t, env, strings.Fields(args)...); code != exitFailure ||
			!strings.HasPrefix(out, "clockd: no response from the server") {
			t.Errorf("clockd %s: exit code %d, printed\n%s", args, code, out)
		}
	}
}

// TestApplicationCommandsRemarkUnknownApplications pauses an application without alarms and settings, which is allowed,
// and then resumes it.
func TestApplicationCommandsRemarkUnknownApplications(t *testing.T) {
	t.Parallel()
	env := []string{"CLOCKD_DATABASE_URL=sqlite:" + t.TempDir() + "/clockd.db"}
	for _, c := range []struct{ args, want string }{
		{"migrate", ""},
		{"application show nosuch", "no alarm and no setting of nosuch is known yet\n"},
		{"application history nosuch", "no alarm and no setting of nosuch is known yet\n"},
		{"application pause shop", "no alarm and no setting of shop is known yet\n"},
		{"application resume shop", ""},
		{"application resume shpo", "no alarm and no setting of shpo is known yet, did you mean shop?\n"},
		{"application set bank --target stream", ""},
	} {
		out, code := typed(t, env, strings.Fields(c.args)...)
		if code != 0 || !strings.Contains(out, c.want) || c.want == "" && strings.Contains(out, "is known yet") {
			t.Errorf("clockd %s: exit code %d, printed\n%s\nwant\n%s", c.args, code, out, c.want)
		}
	}
}
