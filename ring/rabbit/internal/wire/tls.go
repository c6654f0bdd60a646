package wire

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// secure returns conn, with TLS over it if uri demands TLS. The library could add TLS itself, but then the mux could
// not be between library and TLS.
func secure(ctx context.Context, conn net.Conn, uri amqp.URI) (net.Conn, error) {
	if uri.Scheme != "amqps" {
		return conn, nil
	}
	cfg, err := tlsConfig(uri)
	if err != nil {
		return nil, err
	}
	client := tls.Client(conn, cfg)
	if err := client.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return client, nil
}

// unsecured returns the URL with the scheme amqp, so that the library adds no TLS.
func unsecured(url string) string {
	_, rest, _ := strings.Cut(url, ":")
	return "amqp:" + rest
}

// tlsConfig returns the TLS configuration from the query of the URL. Without a certificate authority there, it trusts
// the system's.
func tlsConfig(uri amqp.URI) (*tls.Config, error) {
	cfg := &tls.Config{ServerName: uri.ServerName, MinVersion: tls.VersionTLS12}
	if cfg.ServerName == "" {
		cfg.ServerName = uri.Host
	}
	if uri.CACertFile != "" {
		pem, err := os.ReadFile(uri.CACertFile)
		if err != nil {
			return nil, fmt.Errorf("read the certificate authority: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: no certificate in PEM form", uri.CACertFile)
		}
	}
	if uri.CertFile != "" {
		certificate, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{certificate}
	}
	return cfg, nil
}

// CheckTLS returns an error if the files for TLS in the URL cannot be used.
func (h *Host) CheckTLS() error {
	_, err := tlsConfig(h.uri)
	return err
}
