package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// varying matches what no test knows of the act of a bulk job: its id, and when its filter was frozen.
var varying = regexp.MustCompile(`[A-Z2-7]{26}|"frozen_at":"[^"]*",`)

// requestIDs matches the id of a request in the table of the audit, behind the address.
var requestIDs = regexp.MustCompile(`127\.0\.0\.1 [A-Z2-7]{13}-[0-9a-z]+ `)

// The audit has what people did, by whom and from where, and neither sets nor refused acts.
func TestAuditRecordsWhoDidWhat(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			p := startOn(t, databaseURL, nil)
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "1"), map[string]any{"delay": "1h"})
			admin := newToken(t, databaseURL, "boss", "--role=admin")
			eventually(t, "tokens are needed", func() bool {
				status, _ := p.try(t, "GET", "/v1/nodes", "")
				return status == 401
			})
			for _, c := range []struct {
				path string
				want int
			}{{"/pause", 200}, {"/pause", 200}, {"/kick", 409}, {"/trigger", 409}, {"/resume", 200}} {
				if status, body := p.tryEmpty(t, alarmPath("shop", "1")+c.path, admin); status != c.want {
					t.Errorf("%s: %d %s", c.path, status, body)
				}
			}
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_CHANGED_BY=ops", "CLOCKD_SERVER=" + p.url,
				"CLOCKD_TOKEN=" + admin}
			if out, err := command(env, "trigger", "shop", "1", "--note=now, please").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for _, line := range []string{"bulk start shop kick --prefix=x --note=late", "application set shop --max-rings=3"} {
				if out, err := command(env, strings.Fields(line)...).CombinedOutput(); err != nil {
					t.Fatalf("%s: %v: %s", line, err, out)
				}
			}
			p.cancelOverConnect(t, admin, "shop", "1")
			bank := newToken(t, databaseURL, "bank", "--role=application", "--applications=bank")
			eventually(t, "the token is known", func() bool {
				status, _ := p.try(t, "GET", "/v1/applications/bank/alarms", bank)
				return status == 200
			})
			if status, body := p.tryWith(t, "POST", "/clockd.v1.AlarmService/Cancel", bank,
				`{"application":"shop","businessId":"1"}`, "Content-Type", "application/json"); status != 403 {
				t.Errorf("the bank cancels for the shop: %d %s", status, body)
			}
			var acts, recorded []string // recorded is what no change has made
			var out []byte
			eventually(t, "the refusal and the login are recorded", func() bool {
				var err error
				if out, err = command(env, "audit").CombinedOutput(); err != nil {
					t.Fatalf("%v: %s", err, out)
				}
				acts, recorded = nil, nil
				for line := range strings.Lines(string(out)) {
					act := requestIDs.ReplaceAllString(strings.Join(strings.Fields(line)[1:], " "), "127.0.0.1 ID ")
					act = varying.ReplaceAllString(act, "")
					if strings.Contains(act, " denied ") || strings.Contains(act, " login ") {
						recorded = append(recorded, act)
					} else {
						acts = append(acts, act)
					}
				}
				recorded = slices.DeleteFunc(recorded, func(act string) bool { // of the time before the token was known
					return strings.Contains(act, "the token is unknown")
				})
				return len(recorded) == 3
			})
			if !strings.Contains(strings.Join(recorded, "\n"),
				`bank 127.0.0.1 ID denied shop - null {"code":"forbidden"`) {
				t.Errorf("the refused cancel is missing among\n%s", strings.Join(recorded, "\n"))
			}
			if login := `boss 127.0.0.1 ID login - - null {"role":"admin"}`; !slices.Contains(recorded, login) ||
				!strings.Contains(strings.Join(recorded, "\n"), `- 127.0.0.1 ID denied - - null {"code":"unauthenticated"`) {
				t.Errorf("recorded are\n%s", strings.Join(recorded, "\n"))
			}
			want := []string{
				"ACTOR FROM REQUEST ACTION APPLICATION SUBJECT BEFORE AFTER",
				`ops - - settings shop - {"version":0} {"version":1}`,
				`boss 127.0.0.1 ID bulk_start shop  null {"action":"kick","states":["dead","expired"],"prefix":"x",` +
					`"note":"late"}`,
				`boss 127.0.0.1 ID trigger shop 1 {"state":"scheduled","generation":1} {"state":"scheduled","generation":2,"note":"now, please"}`,
				`boss 127.0.0.1 ID resume shop 1 {"state":"paused","generation":1} {"state":"scheduled","generation":1}`,
				`boss 127.0.0.1 ID pause shop 1 {"state":"scheduled","generation":1} {"state":"paused","generation":1}`,
			}
			made := func(act string) bool { return strings.Contains(act, "token_create") }
			if len(acts) != 8 || !made(acts[1]) || !made(acts[7]) ||
				strings.Join(slices.DeleteFunc(acts, made), "\n") != strings.Join(want, "\n") {
				t.Errorf("the audit:\n%s", out)
			}
			out, err := command(env, "audit", "--application=shop", "--json", "--limit=1").CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"action":"denied"`) ||
				strings.Count(string(out), "\n") != 1 {
				t.Errorf("as JSON: %v: %s", err, out)
			}
			for flags, want := range map[string][]string{
				"--application=shop --subject=1":            {"trigger", "resume", "pause"},
				"--actor=boss --action=resume":              {"resume"},
				"--application=shop --actor=ops":            {"settings"},
				"--application=bank --action=token_create":  nil,
				"--action=token_create --limit=1":           {"token_create"},
				"--application=shop --subject=2 --limit=10": nil,
			} {
				out, err := command(env, append([]string{"audit"}, strings.Fields(flags)...)...).CombinedOutput()
				var actions []string
				for line := range strings.Lines(string(out)) {
					actions = append(actions, strings.Fields(line)[4])
				}
				if err != nil || !slices.Equal(actions[1:], want) {
					t.Errorf("clockd audit %s: %v: %s", flags, err, out)
				}
			}
		})
	}
}

// Old acts are deleted.
func TestAuditHasARetention(t *testing.T) {
	t.Parallel()
	databaseURL := migrated(t, sqliteFile(t))
	admin := newToken(t, databaseURL, "boss", "--role=admin")
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AUDIT_RETENTION=1ms")
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, body := p.try(t, "GET", "/v1/audit", admin)
		if strings.HasPrefix(body, `{"acts":[]`) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the audit: %s", body)
		}
	}
}

// cancelOverConnect cancels an alarm, which the audit does not record. The alarm has the second generation.
func (p *process) cancelOverConnect(t *testing.T, token, application, id string) {
	t.Helper()
	body := fmt.Sprintf(`{"application":%q,"businessId":%q,"generation":2}`, application, id)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/clockd.v1.AlarmService/Cancel",
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if b, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusOK {
		t.Fatalf("the cancel: %d %s", res.StatusCode, b)
	}
}
