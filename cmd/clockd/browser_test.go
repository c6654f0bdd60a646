//go:build browser

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// browserLimit is the most time for a browser.
const browserLimit = 2 * time.Minute

// browser returns a command that opens the URL in Chromium. All host names that end with .test resolve to this machine.
func browser(ctx context.Context, t *testing.T, url string, more ...string) *exec.Cmd {
	t.Helper()
	args := append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
		"--disable-background-networking",
		"--disable-component-update", "--disable-sync", "--user-data-dir=" + t.TempDir(),
		"--host-resolver-rules=MAP *.test 127.0.0.1",
	}, more...)
	cmd := exec.CommandContext(ctx, "chromium", append(args, url)...)
	// All processes of the browser write there, and so Wait waits for their end: they use its folder until then.
	cmd.Stderr, cmd.WaitDelay = io.Discard, 20*time.Second
	return cmd
}

// pageText returns the document that the browser shows for the URL.
func pageText(t *testing.T, url string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	defer cancel()
	out, err := browser(ctx, t, url, "--dump-dom").Output()
	if err != nil {
		t.Fatalf("browser: %v", err)
	}
	return string(out)
}

// evilPage tries everything that a page may do without its reader's knowledge. Then it sends a request to its own
// server. CLOCKD stands for clockd's address.
const evilPage = `<!DOCTYPE html>
<iframe name="sink"></iframe>
<form id="form" target="sink" method="post" enctype="text/plain" action="http://CLOCKD/v1/applications/shop/alarms">
<input name='{"set":[{"business_id":"form","delay":"1h","text":"' value='"}]}'></form>
<img src="http://CLOCKD/v1/applications/shop/rings">
<script>
const base = 'http://CLOCKD/v1/applications/shop';
const tries = [
  () => fetch(base + '/alarms/put', {method: 'PUT', body: '{"delay":"1h"}'}),
  () => fetch(base + '/alarms/due', {method: 'DELETE'}),
  () => fetch(base + '/alarms', {method: 'POST', mode: 'no-cors', body: '{"set":[{"business_id":"post","delay":"1h"}],"cancel":["due"]}'}),
  () => fetch(base + '/alarms/dead/kick', {method: 'POST', mode: 'no-cors'}),
  () => fetch(base + '/discard', {method: 'POST', mode: 'no-cors'}),
  () => fetch(base + '/rings/1.1.1/ack', {method: 'POST', mode: 'no-cors'}),
  () => fetch(base + '/rings', {mode: 'no-cors'}),
  () => new Promise(done => { const s = new EventSource(base + '/rings'); s.onopen = s.onerror = () => { s.close(); done(); }; }),
  () => new Promise(done => { document.getElementById('form').submit(); document.querySelector('iframe').onload = done; }),
];
(async () => {
  for (const attempt of tries) { try { await attempt(); } catch (refused) {} }
  await fetch('/done', {method: 'POST'});
})();
</script>`

// TestBrowserPageOfAnotherSiteCanDoNothing opens a page of another origin in Chromium while an alarm is due.
func TestBrowserPageOfAnotherSiteCanDoNothing(t *testing.T) {
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t))
	p.must(http.StatusCreated, "PUT", "/v1/applications/shop/alarms/due", map[string]any{"delay": "0s"})
	done := make(chan struct{}, 1)
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/done" {
			done <- struct{}{}
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, strings.ReplaceAll(evilPage, "CLOCKD", strings.TrimPrefix(p.url, "http://")))
	}))
	defer evil.Close()
	ctx, cancel := context.WithTimeout(t.Context(), browserLimit)
	cmd := browser(ctx, t, strings.Replace(evil.URL, "127.0.0.1", "evil.test", 1), "--remote-debugging-port=0") // the port keeps the browser open
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-done:
	case <-ctx.Done():
		t.Error("the page did not finish its attempts")
	}
	cancel()
	_ = cmd.Wait() // killed
	if a := p.must(http.StatusOK, "GET", "/v1/applications/shop/alarms/due", nil); a.State != "scheduled" {
		t.Errorf("the page took the ring or changed the alarm: %+v", a)
	}
	for _, id := range []string{"put", "post", "form"} {
		p.must(http.StatusNotFound, "GET", "/v1/applications/shop/alarms/"+id, nil)
	}
	if refused := p.metric(`clockd_http_problems_total{code="cross_site"}`); refused < 7 {
		t.Errorf("only %v requests were refused: the page did not make all attempts", refused)
	}
}

// TestBrowserUnderAnAttackersNameIsRefused makes the attacker's host name resolve to clockd, as after a DNS rebinding.
func TestBrowserUnderAnAttackersNameIsRefused(t *testing.T) {
	p := start(t, "CLOCKD_DATABASE_URL="+sqliteFile(t), "CLOCKD_HOSTS=clockd.test")
	p.must(http.StatusCreated, "PUT", "/v1/applications/shop/alarms/secret-order", map[string]any{"delay": "1h"})
	for host, admitted := range map[string]bool{"rebind.test": false, "clockd.test": true, "localhost": true, "127.0.0.1": true} {
		page := pageText(t, strings.Replace(p.url, "127.0.0.1", host, 1)+"/v1/applications/shop/alarms")
		if got := strings.Contains(page, "secret-order"); got != admitted {
			t.Errorf("under %s the browser shows %s", host, page)
		}
		if !admitted && !strings.Contains(page, "unknown_host") {
			t.Errorf("under %s the refusal is %s", host, page)
		}
	}
}
