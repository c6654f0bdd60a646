package postgresql

import (
	"crypto/x509"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// certificates returns the directory with the certificates of the authority that signed the test servers' certificates.
func certificates(tb testing.TB) string {
	tb.Helper()
	dir := os.Getenv("CLOCKD_TEST_TLS_DIR")
	if dir == "" {
		tb.Fatal("CLOCKD_TEST_TLS_DIR is not set: start the servers with \"make up\", from Debian's packages")
	}
	return dir
}

// poolWith opens a pool of one connection as the store does, with these parameters in the URL.
func poolWith(tb testing.TB, parameters url.Values) *pgxpool.Pool {
	tb.Helper()
	u, err := url.Parse(serverURL())
	ok(tb, err, "parse CLOCKD_TEST_POSTGRES_URL")
	u.RawQuery = parameters.Encode()
	cfg := DefaultConfig()
	cfg.URL = u.String()
	p, err := cfg.pool(1, sessionSettings())
	ok(tb, err, "read the URL")
	pool, err := pgxpool.NewWithConfig(tb.Context(), p)
	ok(tb, err, "open")
	tb.Cleanup(pool.Close)
	return pool
}

func TestSSLModeAndFilesDecideEncryption(t *testing.T) {
	dir := certificates(t)
	authority, cert, key := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "client", "cert.pem"), filepath.Join(dir,
		"client", "key.pem")
	for name, c := range map[string]struct {
		parameters        url.Values
		encrypted, client bool
	}{
		"no parameter":       {url.Values{}, false, false}, // the server offers TLS, and pgx by itself would use it
		"require":            {url.Values{"sslmode": {"require"}}, true, false},
		"authority":          {url.Values{"sslrootcert": {authority}}, true, false},
		"client certificate": {url.Values{"sslrootcert": {authority}, "sslcert": {cert}, "sslkey": {key}}, true, true},
	} {
		var encrypted, client bool
		row := poolWith(t, c.parameters).QueryRow(t.Context(),
			"SELECT ssl, client_dn IS NOT NULL FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
		ok(t, row.Scan(&encrypted, &client), name)
		if encrypted != c.encrypted || client != c.client {
			t.Errorf("%s: encrypted %t, client certificate %t", name, encrypted, client)
		}
	}
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	err := poolWith(t, url.Values{"sslmode": {"verify-full"}}).Ping(t.Context()) // the system's authorities did not sign the server's certificate
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); !is {
		t.Errorf("the server's certificate is accepted: %v", err)
	}
}

func TestEncryptionThatCouldBeGivenUpIsRefused(t *testing.T) {
	for _, parameters := range []string{"sslmode=prefer", "sslmode=allow", "sslmode=prefer&sslrootcert=/nowhere"} {
		cfg := DefaultConfig()
		cfg.URL = "postgres://user:hidden@127.0.0.1/clockd?" + parameters
		if _, err := New(cfg, Deps{}); err == nil || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", parameters, err)
		}
	}
	t.Setenv("PGSSLMODE", "prefer")
	cfg := DefaultConfig()
	cfg.URL = "postgres://user@127.0.0.1/clockd"
	if _, err := New(cfg, Deps{}); !errors.Is(err, errFallback) {
		t.Errorf("PGSSLMODE=prefer: %v", err)
	}
}
