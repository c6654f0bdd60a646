package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/clockd/clockd/clock/front"
)

// tlsFlags are the files of TLS on the port.
type tlsFlags struct {
	TLSCert     string `name:"tls-cert" env:"CLOCKD_TLS_CERT" placeholder:"FILE" help:"PEM file of the certificate of the port, with --tls-key. Without it the port speaks plain HTTP."`
	TLSKey      string `name:"tls-key" env:"CLOCKD_TLS_KEY" placeholder:"FILE" help:"PEM file of the key of the certificate."`
	TLSClientCA string `name:"tls-client-ca" env:"CLOCKD_TLS_CLIENT_CA" placeholder:"FILE" help:"PEM file of authorities: every client must have a certificate of one of them."`
}

func (f *tlsFlags) files() front.TLSFiles {
	return front.TLSFiles{Cert: f.TLSCert, Key: f.TLSKey, ClientCA: f.TLSClientCA}
}

// outgoingTLS is TLS of connections to another server.
type outgoingTLS struct {
	what          string // the server, for errors
	ca, cert, key string // PEM files; empty: the system's authorities, and no certificate of this client
}

// config reads the files.
func (o outgoingTLS) config() (*tls.Config, error) {
	if (o.cert == "") != (o.key == "") {
		return nil, fmt.Errorf("a certificate for %s needs its key, and the key its certificate", o.what)
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.ca != "" {
		pem, err := os.ReadFile(o.ca)
		if err != nil {
			return nil, fmt.Errorf("authorities of %s: %w", o.what, err)
		}
		if cfg.RootCAs = x509.NewCertPool(); !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("authorities of %s: %s has no certificate in PEM", o.what, o.ca)
		}
	}
	if o.cert == "" {
		return cfg, nil
	}
	pair, err := tls.LoadX509KeyPair(o.cert, o.key)
	if err != nil {
		return nil, fmt.Errorf("certificate for %s: %w", o.what, err)
	}
	cfg.Certificates = []tls.Certificate{pair}
	return cfg, nil
}

// followCertificates makes the certificates of the port follow their files, also at each SIGHUP, until ctx ends. Without
// TLS the signal keeps its default: it ends the process.
func followCertificates(ctx context.Context, c *front.Certificates) {
	if c == nil {
		return
	}
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	go func() {
		defer signal.Stop(hangups)
		c.Follow(ctx, hangups)
	}()
}

// certificateNotice is the time before its end at which a certificate is warned of.
const certificateNotice = 7 * 24 * time.Hour

// certificateWarning returns what is wrong with the port's certificate, "" if nothing is.
func certificateWarning(c *front.Certificates, now time.Time) string {
	switch end, failed := c.Expires(), c.Failed(); {
	case failed != nil:
		return "the new certificate is not in use: " + failed.Error()
	case now.After(end):
		return "the certificate has expired at " + shown(end)
	case now.Add(certificateNotice).After(end):
		return "the certificate expires at " + shown(end)
	}
	return ""
}

// errNoTLS refuses files of TLS for a server without TLS.
var errNoTLS = errors.New("files of TLS are given, but the server's URL (CLOCKD_SERVER) does not begin with https://")
