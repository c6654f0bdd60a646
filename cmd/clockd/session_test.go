package main

import (
	"net/http"
	"strings"
	"testing"
)

// signIn starts a session of the token and returns its cookie and its id.
func (p *process) signIn(t *testing.T, token string) (cookie, id string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/v1/session", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusCreated || len(response.Cookies()) != 1 {
		t.Fatalf("sign in: %d, %v", response.StatusCode, response.Header)
	}
	c := response.Cookies()[0]
	return c.Name + "=" + c.Value, strings.Split(c.Value, "_")[1]
}

// A session and a token hold at every node at once. A session ends by hand, and with the secret of its token. The audit
// has its start and its end.
func TestSessionHoldsAtEveryNode(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			nodes := []*process{start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AUTH=required")}
			if e.name != "sqlite" {
				nodes = append(nodes, start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AUTH=required"))
			}
			first, last := nodes[0], nodes[len(nodes)-1]
			try := func(p *process, method, path, cookie string) (int, string) {
				return p.tryWith(t, method, path, "", "", "Cookie", cookie)
			}
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
			run := func(args ...string) string {
				t.Helper()
				out, err := command(env, append([]string{"token"}, args...)...).CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v: %s", args, err, out)
				}
				return string(out)
			}

			boss := newToken(t, databaseURL, "boss", "--role=admin")
			bossCookie, _ := first.signIn(t, boss) // although the node has not read the token
			status, body := try(last, "GET", "/v1/session", bossCookie)
			if status != 200 || !strings.Contains(body, `"name":"boss"`) {
				t.Errorf("a session of another node: %d %s", status, body)
			}
			ops := newToken(t, databaseURL, "ops", "--role=operator", "--applications=shop")
			own, id := last.signIn(t, ops)
			other, otherID := first.signIn(t, ops)
			if list := run("list", "--sessions"); !strings.Contains(list, id) || !strings.Contains(list, otherID) ||
				strings.Contains(list, strings.Split(ops, "_")[1]) {
				t.Errorf("the sessions: %s", list)
			}
			if list := run("list"); strings.Contains(list, id) {
				t.Errorf("the tokens: %s", list)
			}
			out, err := command(env, "token", "rotate", id).CombinedOutput()
			if err == nil || !strings.Contains(string(out), "sign in again") {
				t.Errorf("a session got a new secret: %v: %s", err, out)
			}
			if status, body := try(first, "DELETE", "/v1/sessions/"+id, bossCookie); status != http.StatusNoContent {
				t.Errorf("end a session: %d %s", status, body)
			}
			status, body = try(first, "GET", "/v1/session", own)
			if status != 401 || !strings.Contains(body, "sign in again") {
				t.Errorf("the ended session: %d %s", status, body)
			}
			if status, body := try(first, "GET", "/v1/session", other); status != 200 {
				t.Errorf("the other session: %d %s", status, body)
			}
			run("rotate", strings.Split(ops, "_")[1], "--grace=0s")
			eventually(t, "the session ends with the secret of its token", func() bool {
				atFirst, _ := try(first, "GET", "/v1/session", other)
				atLast, _ := try(last, "GET", "/v1/session", other)
				return atFirst == 401 && atLast == 401
			})
			list := run("list", "--sessions")
			if !strings.Contains(list, "ended with its token") || !strings.Contains(list, "revoked at") {
				t.Errorf("the ended sessions: %s", list)
			}
			_, audit := first.try(t, "GET", "/v1/audit", boss)
			for _, want := range []string{
				`"actor":"ops"`, `"action":"session_start","application":null,"subject":"` + id + `"`,
				`"action":"session_end","application":null,"subject":"` + id + `"`,
			} {
				if !strings.Contains(audit, want) {
					t.Errorf("the audit lacks %s: %s", want, audit)
				}
			}
		})
	}
}
