package front

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// TLSFiles are PEM files for TLS on the port. Without them the port speaks plain HTTP.
type TLSFiles struct {
	Cert     string // certificate of the server, with the intermediate ones
	Key      string // its key
	ClientCA string // authorities of client certificates; empty: clients need none
}

// On reports whether the port speaks TLS.
func (f TLSFiles) On() bool { return f != TLSFiles{} }

// Validate reads the files, and returns their first fault, or nil.
func (f TLSFiles) Validate() error {
	if !f.On() {
		return nil
	}
	_, err := f.read().config()
	return err
}

// tlsContents are the contents of the files.
type tlsContents struct {
	files               TLSFiles
	cert, key, clientCA string
	err                 error // the first file that cannot be read
}

// maxTLSFile is the most bytes that are read of a file.
const maxTLSFile = 1 << 20

// read reads the files.
func (f TLSFiles) read() *tlsContents {
	c := &tlsContents{files: f}
	for _, file := range []struct {
		variable, name string
		into           *string
	}{
		{"CLOCKD_TLS_CERT", f.Cert, &c.cert}, {"CLOCKD_TLS_KEY", f.Key, &c.key},
		{"CLOCKD_TLS_CLIENT_CA", f.ClientCA, &c.clientCA},
	} {
		if file.name == "" || c.err != nil {
			continue
		}
		content, err := readBounded(file.name)
		if err != nil {
			c.err = fmt.Errorf("%s: %w", file.variable, err)
		}
		*file.into = string(content)
	}
	return c
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(io.LimitReader(f, maxTLSFile))
	return content, errors.Join(err, f.Close())
}

// same reports whether both have the same contents.
func (c *tlsContents) same(other *tlsContents) bool {
	return c.cert == other.cert && c.key == other.key && c.clientCA == other.clientCA &&
		fmt.Sprint(c.err) == fmt.Sprint(other.err)
}

// config returns the configuration of TLS with these contents.
func (c *tlsContents) config() (*tls.Config, error) {
	switch {
	case c.files.Cert == "" || c.files.Key == "":
		return nil, errors.New("TLS needs both a certificate (CLOCKD_TLS_CERT) and its key (CLOCKD_TLS_KEY)")
	case c.err != nil:
		return nil, c.err
	}
	pair, err := tls.X509KeyPair([]byte(c.cert), []byte(c.key))
	if err != nil {
		return nil, fmt.Errorf("certificate %s with key %s: %w", c.files.Cert, c.files.Key, err)
	}
	cfg := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{pair},
	}
	if c.files.ClientCA == "" {
		return cfg, nil
	}
	if cfg.ClientCAs = x509.NewCertPool(); !cfg.ClientCAs.AppendCertsFromPEM([]byte(c.clientCA)) {
		return nil, fmt.Errorf("authorities of client certificates: %s has no certificate in PEM", c.files.ClientCA)
	}
	cfg.ClientAuth = tls.RequireAndVerifyClientCert
	return cfg, nil
}

// certificateLook is the time between two looks at the files.
const certificateLook = time.Second

// Certificates are the certificate and the authorities that new connections use. They follow their files while Follow
// runs. Files that cannot be used leave the former certificate in use. Safe for concurrent use.
type Certificates struct {
	files    TLSFiles
	log      *slog.Logger
	refused  prometheus.Counter // connections whose handshake has failed
	inUse    atomic.Pointer[tls.Config]
	failed   atomic.Pointer[error] // why the files are not in use; nil: they are
	contents *tlsContents          // of the latest look; Follow alone reads and writes it
}

// NewCertificates loads the files. It returns nil without an error if there are none.
func NewCertificates(files TLSFiles, log *slog.Logger, into prometheus.Registerer) (*Certificates, error) {
	if !files.On() {
		return nil, nil //nolint:nilnil // no files are no error
	}
	c := &Certificates{files: files, log: log, contents: files.read()}
	cfg, err := c.contents.config()
	if err != nil {
		return nil, err
	}
	c.inUse.Store(cfg)
	if expired(cfg) {
		log.Warn("the certificate of the port has expired", "file", files.Cert, "expires", c.Expires())
	}
	c.refused = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "clockd_http_tls_handshake_failures_total",
		Help: "Connections without a handshake of TLS: the client's certificate, its trust in ours, or plain HTTP.",
	})
	return c, errors.Join(into.Register(c.refused), into.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_http_certificate_expires_timestamp_seconds",
		Help: "End of the validity of the port's certificate, in seconds since 1970.",
	}, func() float64 { return float64(c.Expires().Unix()) })))
}

// expired reports whether the certificate of a configuration is not valid any more.
func expired(cfg *tls.Config) bool { return time.Now().After(cfg.Certificates[0].Leaf.NotAfter) }

// Expires returns the end of the validity of the certificate in use.
func (c *Certificates) Expires() time.Time { return c.inUse.Load().Certificates[0].Leaf.NotAfter }

// Failed returns why the files are not in use, or nil.
func (c *Certificates) Failed() error {
	if err := c.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// Follow looks at the files every second, and at each signal, until ctx ends. A file that blocks delays only the next
// look.
func (c *Certificates) Follow(ctx context.Context, signals <-chan os.Signal) {
	look := time.NewTicker(certificateLook)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		case <-signals:
		}
		if contents := c.files.read(); !contents.same(c.contents) {
			c.use(contents)
		}
	}
}

// use makes new connections use the contents, unless they cannot be used, or have expired and the former have not. All
// connections between two changes share one configuration, and the keys of its session tickets: no ticket outlives the
// authorities that it was made under.
func (c *Certificates) use(contents *tlsContents) {
	c.contents = contents
	cfg, err := contents.config()
	if err == nil && expired(cfg) && !expired(c.inUse.Load()) {
		err = fmt.Errorf("certificate %s has expired", c.files.Cert)
	}
	if err != nil {
		c.failed.Store(&err)
		c.log.Error("the certificate in use stays, because the new one cannot be used", "err", err)
		return
	}
	c.failed.Store(nil)
	c.inUse.Store(cfg)
	c.log.Info("the port uses a new certificate", "file", c.files.Cert, "expires", c.Expires())
}

// secure returns a connection that speaks TLS on tcp. The handshake is part of its first read. longest bounds each
// write without a deadline: TLS also writes while it reads.
func (c *Certificates) secure(tcp *net.TCPConn, longest time.Duration) net.Conn {
	under := &boundedConn{TCPConn: tcp, longest: longest}
	return &tlsConn{Conn: tls.Server(under, c.inUse.Load()), under: under, of: c}
}

// tlsConn is a connection with TLS. net/http does not know its type, and takes the bytes that it reads for plain
// HTTP/1.1 or HTTP/2. So both kinds of ports share one way, whose limits watch the bytes within the encryption.
type tlsConn struct {
	*tls.Conn

	under  *boundedConn
	of     *Certificates
	failed bool // the handshake has failed
}

// plainRequest is the response to a client that speaks plain HTTP.
const plainRequest = "HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n" +
	"this port speaks TLS: the URL must begin with https://\n"

// Read reads into b, after the handshake. Only net/http reads, one read at a time.
func (c *tlsConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil && !c.failed && !c.ConnectionState().HandshakeComplete {
		c.failed = true
		c.explain(err)
	}
	return n, err
}

// explain lets the client read why its handshake has failed: the alert of TLS, or a text for a client without TLS. A
// close before the client's bytes are read would reset the connection, and the client might see only that.
func (c *tlsConn) explain(err error) {
	if timeout, is := errors.AsType[net.Error](err); is && timeout.Timeout() || errors.Is(err, net.ErrClosed) {
		return
	}
	if !errors.Is(err, io.EOF) { // a client that only looks whether the port is open
		c.of.refused.Inc()
		c.of.log.Debug("a handshake of TLS has failed", "client", c.RemoteAddr(), "err", err)
	}
	if fault, is := errors.AsType[tls.RecordHeaderError](err); is && startsHTTP(fault.RecordHeader) {
		_ = c.under.SetWriteDeadline(time.Now().Add(refusalTimeout))
		_, _ = io.WriteString(c.under.TCPConn, plainRequest)
	}
	_ = c.under.CloseWrite()
	_ = c.under.SetReadDeadline(time.Now().Add(explainTimeout))
	_, _ = io.CopyN(io.Discard, c.under.TCPConn, explainBytes)
}

// Bounds of what the server reads of a client whose handshake has failed.
const (
	explainTimeout = 500 * time.Millisecond
	explainBytes   = 64 << 10
)

// startsHTTP reports whether the first bytes of a connection look like a request of HTTP. A record of TLS does not begin
// with a letter.
func startsHTTP(header [5]byte) bool { return header[0] >= 'A' && header[0] <= 'Z' }

// Close ends the connection. A stopping server closes its connections one after another, so a client that does not read
// must not delay it: the goodbye of TLS is sent only if the kernel takes it at once, and a write that waits for the
// client, with the lock that the goodbye needs, ends.
func (c *tlsConn) Close() error {
	c.under.close()
	return c.Conn.Close()
}

// boundedConn is the connection below TLS. Each write has a deadline.
type boundedConn struct {
	*net.TCPConn

	longest  time.Duration // of a write without a deadline
	deadline atomic.Bool   // writes have a deadline
	closing  atomic.Bool
}

// goodbye is the longest time for the last write of a connection.
const goodbye = 2 * time.Millisecond

func (c *boundedConn) close() {
	c.closing.Store(true)
	_ = c.TCPConn.SetWriteDeadline(time.Now().Add(goodbye))
}

// Write writes b, within longest if no deadline is set.
func (c *boundedConn) Write(b []byte) (int, error) {
	if !c.deadline.Load() && !c.closing.Load() {
		_ = c.TCPConn.SetWriteDeadline(time.Now().Add(c.longest))
		if c.closing.Load() { // meanwhile
			c.close()
		}
	}
	return c.TCPConn.Write(b)
}

// SetDeadline sets the deadlines of reads and writes.
func (c *boundedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetWriteDeadline sets the deadline of writes. A connection that closes keeps its own: tls.Conn would take 5 s.
func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	if c.closing.Load() {
		return nil
	}
	c.deadline.Store(!t.IsZero())
	return c.TCPConn.SetWriteDeadline(t)
}
