package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
)

// TestServersThatAreNotReachedAreNamedInPlainWords runs a command against servers that are away, or that are not
// clockd.
func TestServersThatAreNotReachedAreNamedInPlainWords(t *testing.T) {
	t.Parallel()
	server := func(start func(*httptest.Server), status int, body string) string {
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}))
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // refused handshakes are on purpose
		start(s)
		t.Cleanup(s.Close)
		return s.URL
	}
	plain := server((*httptest.Server).Start, http.StatusOK, "<html>")
	secure := server((*httptest.Server).StartTLS, http.StatusOK, "{}")
	missing := server((*httptest.Server).Start, http.StatusNotFound, "<html>")
	refusing := server((*httptest.Server).Start, http.StatusUnauthorized,
		`{"code":"unauthenticated","detail":"this service needs a token"}`)
	closed := freeAddress(t)
	for _, c := range []struct{ url, want string }{
		{"http://u:secret@" + closed,
			"clockd: no response from the server at http://" + closed + ": connection refused\nis clockd running there? CLOCKD_SERVER or --server names this server; the default is http://127.0.0.1:8080\n"},
		{strings.Replace(plain, "http", "https", 1), "it does not speak TLS; the URL must begin with http://\n"},
		{refusing,
			"this service needs a token (unauthenticated)\nno token is given: set CLOCKD_TOKEN, or CLOCKD_TOKEN_FILE"},
		{secure, "its certificate is not trusted: certificate signed by unknown authority\n"},
		{plain, "clockd: the server at " + plain + " is not clockd: status 200, the response is not clockd's JSON\n"},
		{missing, "the server at " + missing + " is not clockd, or a proxy responded for it: status 404 Not Found\n"},
	} {
		out, code := typed(t, []string{"CLOCKD_SERVER=" + c.url}, "get", "shop", "a")
		if code != exitFailure || !strings.Contains(out, c.want) || strings.Contains(out, "secret") {
			t.Errorf("%s: exit code %d, printed\n%s\nwant\n%s", c.url, code, out, c.want)
		}
	}
}

func TestTimeoutsAndResolversAreExplainedInPlainWords(t *testing.T) {
	t.Parallel()
	f := serverFlags{Server: "http://clock:8080"}
	for want, cause := range map[string]error{
		"nothing came within 30s":                  fmt.Errorf("get: %w", context.DeadlineExceeded),
		"the connection ended before the response": io.ErrUnexpectedEOF,
		"the host clock is not known": &net.OpError{Op: "dial",
			Err: &net.DNSError{Err: "no such host", Name: "clock", IsNotFound: true}},
		"the name server did not resolve clock": &net.OpError{Op: "dial",
			Err: &net.DNSError{Err: "server misbehaving", Name: "clock"}},
	} {
		if got := f.explained(&client.Error{Err: cause}).Error(); got != "no response from the server at http://clock:8080: "+want {
			t.Errorf("%v is explained as %q, want %q", cause, got, want)
		}
	}
}
