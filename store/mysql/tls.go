package mysql

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"os"

	"github.com/go-sql-driver/mysql"
)

// URL parameters that name PEM files. They have the names of MySQL's own client options; the driver does not know them.
const (
	paramCA   = "ssl-ca"   // certificate authorities that may have signed the server's certificate
	paramCert = "ssl-cert" // the client's certificate
	paramKey  = "ssl-key"  // the client's private key
)

// errFallback refuses settings that let the driver continue without encryption when the server offers none.
var errFallback = errors.New("mysql: tls=preferred and allowFallbackToPlaintext silently give up encryption: " +
	"write tls=true, or tls=skip-verify to encrypt without checking the server's certificate, or leave both out for plaintext")

// takeFiles removes the parameters that name PEM files from the query and returns them.
func takeFiles(query url.Values) (files map[string]string) {
	files = map[string]string{}
	for _, name := range []string{paramCA, paramCert, paramKey} {
		if query.Has(name) {
			files[name] = query.Get(name)
		}
		query.Del(name)
	}
	return files
}

// encrypt sets the TLS configuration from the files. Any file turns encryption on. The server's certificate is then
// checked, unless the URL says tls=skip-verify.
func encrypt(d *mysql.Config, files map[string]string) error {
	switch {
	case d.TLSConfig == "preferred", d.AllowFallbackToPlaintext:
		return errFallback
	case len(files) == 0:
		return nil
	case d.TLSConfig == "false":
		return fmt.Errorf("mysql: the database URL says tls=false, but names files for TLS: %s, %s or %s", paramCA,
			paramCert, paramKey)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: d.TLSConfig == "skip-verify"} //nolint:gosec // the URL asks for it
	if file, given := files[paramCA]; given {
		pool, err := authorities(file)
		if err != nil {
			return err
		}
		c.RootCAs = pool
	}
	cert, hasCert := files[paramCert]
	key, hasKey := files[paramKey]
	if hasCert != hasKey {
		return fmt.Errorf("mysql: %s and %s go together: a client certificate needs its private key", paramCert,
			paramKey)
	}
	if hasCert {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return fmt.Errorf("mysql: load the client certificate: %w", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	d.TLS = c
	return nil
}

// authorities returns the certificates of a PEM file. A file without one is an error.
func authorities(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("mysql: read the certificate authority: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("mysql: %s: no certificate in PEM form", file)
	}
	return pool, nil
}
