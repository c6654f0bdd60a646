package rabbit

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

// secure returns conn as uri wants it: as it is, or with TLS over it. The library could do that itself, but then
// nothing of ours could stand between the two.
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

// unsecured returns the URL as one that lets the library do without TLS.
func unsecured(url string) string {
	_, rest, _ := strings.Cut(url, ":")
	return "amqp:" + rest
}

// tlsConfig returns what the URL's query says of TLS; without a certificate authority the system's are trusted.
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
		cfg.RootCAs.AppendCertsFromPEM(pem)
	}
	if uri.CertFile != "" && uri.KeyFile != "" {
		certificate, err := tls.LoadX509KeyPair(uri.CertFile, uri.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("load the client certificate: %w", err)
		}
		cfg.Certificates = []tls.Certificate{certificate}
	}
	return cfg, nil
}
