package clockhttp

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// startWithPages starts a server with pages that respond with the path that they see.
func startWithPages(t *testing.T) *harness {
	h := start(t)
	h.server.MountPages(Pages{Name: "pages", Path: "/ui", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "<"+r.URL.Path+">")
	})})
	h.client = &http.Client{Transport: h.transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return h
}

func TestPagesSeeThePathBelowTheirOwn(t *testing.T) {
	t.Parallel()
	h := startWithPages(t)
	for path, want := range map[string]string{"/ui/": "<>", "/ui/a.js": "<a.js>", "/ui/a/b?x=1": "<a/b>"} {
		if r := h.expect(200, "", "GET", path, ""); string(r.body) != want {
			t.Errorf("%s: %s, want %s", path, r.body, want)
		}
	}
	if r := h.do("HEAD", "/ui/a.js", ""); r.status != 200 || len(r.body) > 0 {
		t.Errorf("HEAD: %d %s", r.status, r.body)
	}
	if r := h.do("POST", "/ui/a.js", ""); r.status != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d %s", r.status, r.body)
	}
}

// TestPagesRedirectWorksBelowAPrefix resolves the redirect as the client of a proxy does.
func TestPagesRedirectWorksBelowAPrefix(t *testing.T) {
	t.Parallel()
	h := startWithPages(t)
	r := h.do("GET", "/ui", "")
	if got := r.header.Get("Location"); r.status != http.StatusPermanentRedirect || got != "ui/" {
		t.Errorf("%d to %q", r.status, got)
	}
	if got := h.do("GET", "/ui?view=alarm&id=a%2Fb", "").header.Get("Location"); got != "ui/?view=alarm&id=a%2Fb" {
		t.Errorf("the query is lost: %q", got)
	}
}

func TestPagesNeedNoOwnHostName(t *testing.T) {
	t.Parallel()
	h := startWithPages(t)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/ui/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	request.Host = "any.example"
	response, err := h.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != 200 || !strings.Contains(string(body), "<>") {
		t.Errorf("%d %s, %v", response.StatusCode, body, err)
	}
}
