package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

func TestLoopbackIsToldFromOtherAddresses(t *testing.T) {
	t.Parallel()
	for listen, want := range map[string]bool{
		"127.0.0.1:8080": true, "127.9.9.9:1": true, "[::1]:8080": true, "[::ffff:127.0.0.1]:8080": true,
		"localhost:0": true,
		"":            false, ":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "10.0.0.2:8080": false,
		"[2001:db8::1]:8080": false, "clockd.example:80": false,
	} {
		if got := loopback(listen); got != want {
			t.Errorf("%q: loopback %t", listen, got)
		}
	}
}

// newToken makes a token with the command and returns its text.
func newToken(t *testing.T, databaseURL string, args ...string) string {
	t.Helper()
	out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL},
		append([]string{"token", "create"}, args...)...).Output()
	if err != nil {
		t.Fatalf("token create %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// try sends a request with a token, or without one if it is "", and returns the status and the body.
func (p *process) try(t *testing.T, method, path, token string, header ...string) (int, string) {
	t.Helper()
	body := `{"delay":"1h"}`
	if method == http.MethodGet {
		body = ""
	}
	return p.tryWith(t, method, path, token, body, header...)
}

// tryWith is try with a body.
func (p *process) tryWith(t *testing.T, method, path, token, body string, header ...string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, p.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	received, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(received)
}

// tryEmpty posts a request without a body.
func (p *process) tryEmpty(t *testing.T, path, token string) (int, string) {
	t.Helper()
	return p.tryWith(t, http.MethodPost, path, token, "")
}

// Loopback needs no token until the first one is made. Then a revocation holds within 2 s at every node.
func TestFirstTokenClosesLoopback(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			nodes := []*process{startOn(t, databaseURL, nil)}
			if e.name != "sqlite" {
				nodes = append(nodes, startOn(t, databaseURL, nil))
			}
			want := func(what string, status int, method, path, token string, header ...string) {
				t.Helper()
				deadline := time.Now().Add(2 * time.Second)
				for _, p := range nodes {
					got, body := p.try(t, method, path, token, header...)
					for got != status && time.Now().Before(deadline) {
						time.Sleep(50 * time.Millisecond)
						got, body = p.try(t, method, path, token, header...)
					}
					if got != status {
						t.Errorf("%s: %d %s, want %d", what, got, body, status)
					}
				}
			}
			want("no token needed", 200, "GET", "/v1/applications/shop/alarms", "")
			want("a proxy's request", 401, "PUT", alarmPath("shop", "1"), "", "X-Forwarded-For", "10.0.0.1")
			if status, detail, _ := nodes[0].check("authentication"); status != statusOK {
				t.Errorf("readiness while open: %s %s", status, detail)
			}
			shop := newToken(t, databaseURL, "shop", "--role=application", "--applications=shop")
			admin := newToken(t, databaseURL, "boss", "--role=admin")
			want("no token", 401, "PUT", alarmPath("shop", "1"), "")
			want("the token", 200, "GET", "/v1/applications/shop/alarms", shop)
			want("another application", 403, "GET", "/v1/applications/bank/alarms", shop)
			want("another role", 403, "POST", "/v1/applications/shop/kick", shop)
			want("health", 200, "GET", "/healthz", "")
			want("metrics", 200, "GET", "/metrics", "")
			id := strings.Split(shop, "_")[1]
			if out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, "token", "revoke", id).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			want("the revoked token", 401, "GET", "/v1/applications/shop/alarms", shop)
			want("the other token", 200, "GET", "/v1/applications/shop/alarms", admin)

			env := []string{"CLOCKD_SERVER=" + nodes[0].url}
			if out, err := command(env, "list", "shop").CombinedOutput(); err == nil ||
				!strings.Contains(string(out), "unauthenticated") {
				t.Errorf("a command without a token: %v: %s", err, out)
			}
			file := filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(file, []byte(admin+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, variable := range []string{"CLOCKD_TOKEN=" + admin, "CLOCKD_TOKEN_FILE=" + file} {
				if out, err := command(append(env, variable), "list", "shop").CombinedOutput(); err != nil {
					t.Errorf("%.20s: %v: %s", variable, err, out)
				}
			}
		})
	}
}

// A stream of rings ends after the revocation of its token. The tests of clock/access say how soon.
func TestRevocationEndsAStream(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := startOn(t, databaseURL, nil)
	token := newToken(t, databaseURL, "shop", "--role=application", "--applications=shop")
	eventually(t, "the token is known", func() bool {
		status, _ := p.try(t, "GET", "/v1/applications/shop/alarms", token)
		return status == 200
	})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, p.url+"/v1/applications/shop/rings", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := http.DefaultClient.Do(r)
	if err != nil || response.StatusCode != 200 {
		t.Fatalf("the stream: %v, %v", response, err)
	}
	defer func() { _ = response.Body.Close() }()
	ended := make(chan time.Time, 1)
	go func() {
		buffer := make([]byte, 4096)
		for {
			if _, err := response.Body.Read(buffer); err != nil {
				ended <- time.Now()
				return
			}
		}
	}()
	if out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, "token", "revoke", strings.Split(token, "_")[1]).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	revoked := time.Now()
	select {
	case at := <-ended:
		t.Logf("the stream ended after %s", at.Sub(revoked))
	case <-time.After(giveUpAfter):
		t.Error("the stream goes on")
	}
}

// Beyond loopback a service without tokens refuses all requests, and says how to make the first token.
func TestServiceWithoutTokensStartsClosedBeyondLoopback(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_LISTEN=0.0.0.0:0")
	const how = "clockd token create NAME --role admin"
	if status, body := p.try(t, "GET", "/v1/nodes", ""); status != 401 || !strings.Contains(body, how) {
		t.Errorf("a request: %d %s", status, body)
	}
	if status, detail, _ := p.check("authentication"); status != statusWarning || !strings.Contains(detail, how) {
		t.Errorf("readiness: %s %s", status, detail)
	}
	token := newToken(t, databaseURL, "ops", "--role=admin")
	eventually(t, "the token opens the service", func() bool {
		status, _ := p.try(t, "GET", "/v1/nodes", token)
		return status == 200
	})
	if status, detail, _ := p.check("authentication"); status != statusOK {
		t.Errorf("readiness with a token: %s %s", status, detail)
	}
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.log.String(), how) {
		t.Errorf("the log does not say how to begin:\n%s", p.log.String())
	}
}

// With --auth=none everyone may do everything, and the log and readiness warn.
func TestAuthenticationCanBeTurnedOff(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_LISTEN=0.0.0.0:0", "CLOCKD_AUTH=none")
	newToken(t, databaseURL, "ops", "--role=admin")
	if status, body := p.try(t, "PUT", alarmPath("shop", "1"), "", "Via", "1.1 proxy"); status != 201 {
		t.Errorf("a request: %d %s", status, body)
	}
	if status, detail, _ := p.check("authentication"); status != statusWarning ||
		!strings.Contains(detail, "CLOCKD_AUTH=none") {
		t.Errorf("readiness: %s %s", status, detail)
	}
	if err := p.terminate(); err != nil {
		t.Error(err)
	}
	if !strings.Contains(p.log.String(), "CLOCKD_AUTH=none") {
		t.Errorf("the log does not warn:\n%s", p.log.String())
	}
	if out, err := command(nil, "serve", "--auth=off").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "auto") {
		t.Errorf("--auth=off: %v: %s", err, out)
	}
}

// The bootstrap file makes an admin token at start. A revoked one stays revoked.
func TestBootstrapFileMakesTheFirstToken(t *testing.T) {
	t.Parallel()
	databaseURL, file := sqliteFile(t), filepath.Join(t.TempDir(), "token")
	out, err := command(nil, "token", "generate").Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, out, 0o600); err != nil {
		t.Fatal(err)
	}
	token := strings.TrimSpace(string(out))
	for _, want := range []int{200, 200, 401} {
		if want == 401 {
			if out, err := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, "token", "revoke", strings.Split(token, "_")[1]).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		}
		p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_BOOTSTRAP_TOKEN_FILE="+file)
		if status, body := p.try(t, "GET", "/v1/nodes", token); status != want {
			t.Errorf("the token: %d %s, want %d", status, body, want)
		}
		if status, _ := p.try(t, "GET", "/v1/nodes", ""); status != 401 {
			t.Errorf("no token: %d", status)
		}
		if err := p.terminate(); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(file, []byte("clockd_wrong"), 0o600); err != nil {
		t.Fatal(err)
	}
	broken := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_LISTEN=127.0.0.1:0", "CLOCKD_BOOTSTRAP_TOKEN_FILE=" + file}, "serve")
	if out, err := broken.CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "CLOCKD_BOOTSTRAP_TOKEN_FILE") {
		t.Errorf("a broken file: %v: %s", err, out)
	}
}

// The name of a token is the default of by in answers.
func TestAnswerNamesTheToken(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := startOn(t, databaseURL, nil)
	token := newToken(t, databaseURL, "shop worker", "--role=application", "--applications=shop")
	c, err := client.New(p.url, client.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "tokens are needed", func() bool {
		status, _ := p.try(t, "GET", "/v1/nodes", "")
		return status == 401
	})
	if _, err := c.Set(t.Context(), "shop", "1", client.Set{When: client.After(0), AckTimeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err = c.Consume(ctx, "shop", client.Consumer{Handle: func(context.Context, *client.Ring) client.Answer {
		stop()
		return client.Answer{Kind: client.Acked}
	}})
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	a, err := c.Get(t.Context(), "shop", "1")
	if err != nil || a.AnsweredBy != "shop worker" {
		t.Errorf("answered by %q, %v", a.AnsweredBy, err)
	}
}

// TestServePrintsARequestThatItAccepts starts a service that needs tokens, without a token and with one.
func TestServePrintsARequestThatItAccepts(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	second := func() string {
		serving := command([]string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_LISTEN=127.0.0.1:0", "CLOCKD_AUTH=required"}, "serve")
		out, err := serving.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := serving.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = serving.Process.Kill(), serving.Wait() }()
		lines := bufio.NewReader(out)
		first, _ := lines.ReadString('\n')
		second, err := lines.ReadString('\n')
		if err != nil {
			t.Errorf("printed %q and %q: %v", first, second, err)
		}
		return second
	}
	if line := second(); line != "every request needs an access token, and none exists: make one with clockd token create NAME --role admin\n" {
		t.Errorf("without a token: printed %q", line)
	}
	newToken(t, databaseURL, "ops", "--role=admin")
	if line := second(); !strings.HasPrefix(line, `try: curl -X PUT -H "Authorization: Bearer $CLOCKD_TOKEN" http://127.0.0.1:`) {
		t.Errorf("with a token: printed %q", line)
	}
}
