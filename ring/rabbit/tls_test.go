package rabbit

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

// overTLS returns the URL of the broker's TLS port with these parameters.
func overTLS(tb testing.TB, parameters url.Values) string {
	tb.Helper()
	u, err := url.Parse(os.Getenv("CLOCKD_TEST_AMQPS_URL"))
	if err != nil || u.Scheme != "amqps" {
		tb.Fatal("CLOCKD_TEST_AMQPS_URL is not set: start the broker with \"make up\", from Debian's packages")
	}
	u.RawQuery = parameters.Encode()
	return u.String()
}

func TestBrokerDemandsAClientCertificate(t *testing.T) {
	t.Parallel()
	dir := os.Getenv("CLOCKD_TEST_TLS_DIR")
	files := url.Values{"cacertfile": {filepath.Join(dir, "ca.pem")}}
	b := rabbittest.Shared(t)
	cfg := configOf(b)
	cfg.URL = overTLS(t, files)
	if s, err := New(cfg, Deps{}); err != nil {
		t.Error(err)
	} else if err := firstConnectError(t, s); err == nil {
		t.Error("connected without a client certificate")
	}
	files["certfile"], files["keyfile"] = []string{filepath.Join(dir, "client", "cert.pem")}, []string{filepath.Join(dir, "client", "key.pem")}
	cfg.URL = overTLS(t, files)
	s := startUsable(t, cfg)
	queue := b.Queue("shop", nil)
	wantAll(t, openAndDeliver(t.Context(), laneOf(t, s), rings("shop", 3), ampleLimits()), clock.Confirmed)
	b.Take(queue, 3)
}

func TestInvalidTLSParametersAreRefused(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for raw, reason := range map[string]string{
		"amqp://u:hidden@127.0.0.1/?cacertfile=" + empty:                 "write amqps://",
		"amqps://u:hidden@127.0.0.1/?certfile=" + empty:                  "go together",
		"amqps://u:hidden@127.0.0.1/?cacertfile=" + empty:                "no certificate",
		"amqps://u:hidden@127.0.0.1/?cacertfile=/nowhere":                "no such file",
		"amqps://u:hidden@127.0.0.1/?certfile=/nowhere&keyfile=/nowhere": "no such file",
	} {
		cfg := DefaultConfig()
		cfg.URL = raw
		err := cfg.Validate()
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
