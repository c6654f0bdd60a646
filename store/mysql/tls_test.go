package mysql

import (
	"crypto/rand"
	"crypto/x509"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
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

// withParameters returns the server's URL with these parameters, scheme mariadb.
func withParameters(tb testing.TB, parameters url.Values) string {
	tb.Helper()
	u, err := url.Parse(serverURL())
	ok(tb, err, "parse CLOCKD_TEST_MYSQL_URL")
	u.Scheme, u.RawQuery = "mariadb", parameters.Encode()
	return u.String()
}

// openURL opens a pool of one connection as the store does.
func openURL(tb testing.TB, raw string) *sql.DB {
	tb.Helper()
	cfg := DefaultConfig()
	cfg.URL = raw
	d, err := cfg.driver(slog.New(slog.DiscardHandler))
	ok(tb, err, "read the URL")
	db, err := open(d, 1, true)
	ok(tb, err, "open")
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func TestCertificateFilesTurnEncryptionOn(t *testing.T) {
	dir := certificates(t)
	for name, parameters := range map[string]url.Values{
		"authority": {"ssl-ca": {filepath.Join(dir, "ca.pem")}},
		"client certificate": {"ssl-ca": {filepath.Join(dir, "ca.pem")},
			"ssl-cert": {filepath.Join(dir, "client", "cert.pem")},
			"ssl-key":  {filepath.Join(dir, "client", "key.pem")}},
	} {
		var variable, cipher string
		row := openURL(t, withParameters(t, parameters)).QueryRowContext(t.Context(), "SHOW STATUS LIKE 'Ssl_cipher'")
		ok(t, row.Scan(&variable, &cipher), name)
		if cipher == "" {
			t.Errorf("%s: the connection is not encrypted", name)
		}
	}
}

func TestServerOfAnotherAuthorityIsRefused(t *testing.T) {
	db := openURL(t, withParameters(t, url.Values{"tls": {"true"}})) // the system's authorities did not sign the server's certificate
	err := db.PingContext(t.Context())
	if _, is := errors.AsType[x509.UnknownAuthorityError](err); !is {
		t.Errorf("the server's certificate is accepted: %v", err)
	}
}

// TestPasswordIsAcceptedWithAndWithoutEncryption connects a new user twice. With caching_sha2_password, MySQL's
// default, the first connection sends the password. Without TLS the driver encrypts it with a public key that the
// server sends. The second connection sends only a hash.
func TestPasswordIsAcceptedWithAndWithoutEncryption(t *testing.T) {
	admin := openURL(t, serverURL())
	for name, parameters := range map[string]url.Values{"plaintext": {}, "encrypted": {"ssl-ca": {filepath.Join(certificates(t), "ca.pem")}}} {
		user := "p_" + strings.ToLower(rand.Text())[:16]
		for _, statement := range []string{"CREATE USER %s@'%%' IDENTIFIED BY 'pass word/''ä'", "GRANT SELECT ON *.* TO %s@'%%'"} {
			_, err := admin.ExecContext(t.Context(), fmt.Sprintf(statement, user))
			ok(t, err, statement)
		}
		u, err := url.Parse(withParameters(t, parameters))
		ok(t, err, "parse the URL")
		u.User = url.UserPassword(user, "pass word/'ä")
		for _, connection := range []string{"first", "second"} {
			if err := openURL(t, u.String()).PingContext(t.Context()); err != nil {
				t.Errorf("%s, %s connection: %v", name, connection, err)
			}
		}
		u.User = url.UserPassword(user, "another")
		if err := openURL(t, u.String()).PingContext(t.Context()); !hasNumber(err, 1045) {
			t.Errorf("%s: the server accepts another password: %v", name, err)
		}
		_, err = admin.ExecContext(t.Context(), "DROP USER "+user+"@'%'")
		ok(t, err, "drop the user")
	}
}

func TestEncryptionThatCouldBeGivenUpIsRefused(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	ok(t, os.WriteFile(empty, nil, 0o600), "write")
	for parameters, reason := range map[string]string{
		"tls=preferred":                              "tls=preferred",
		"tls=true&allowFallbackToPlaintext=true":     "allowFallbackToPlaintext",
		"tls=false&ssl-ca=" + url.QueryEscape(empty): "tls=false",
		"ssl-ca=" + url.QueryEscape(empty):           "no certificate",
		"ssl-ca=" + url.QueryEscape(dir+"/none.pem"): "no such file",
		"ssl-cert=" + url.QueryEscape(empty):         "go together",
		"ssl-key=" + url.QueryEscape(empty):          "go together",
		"ssl-cert=" + empty + "&ssl-key=" + empty:    "client certificate",
	} {
		cfg := DefaultConfig()
		cfg.URL = "mysql://user:hidden@127.0.0.1/clockd?" + parameters
		_, err := New(cfg, Deps{})
		if err == nil || !strings.Contains(err.Error(), reason) || strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: %v", parameters, err)
		}
	}
}
