package main

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// authority issues certificates, and keeps them in files.
type authority struct {
	t           *testing.T
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
	file        string // its certificate in PEM
	issued      int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := &authority{t: t, key: key, file: filepath.Join(t.TempDir(), "ca.pem")}
	a.certificate = &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	a.write(a.file, "CERTIFICATE", a.sign(a.certificate, key))
	return a
}

// issue makes a certificate for 127.0.0.1 that is valid for a time, and writes it with its key into files of the name.
// It returns the serial number.
func (a *authority) issue(certFile, keyFile string, valid time.Duration) int64 {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	a.issued++
	serial := a.issued + 1
	der := a.sign(&x509.Certificate{
		SerialNumber: big.NewInt(serial), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(valid),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, key)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(keyFile, "PRIVATE KEY", private)
	a.write(certFile, "CERTIFICATE", der)
	return serial
}

// issueIn is issue into new files of a directory of the test. The certificate is valid for 30 days.
func (a *authority) issueIn() (certFile, keyFile string) {
	a.t.Helper()
	dir := a.t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	a.issue(certFile, keyFile, 30*24*time.Hour)
	return certFile, keyFile
}

func (a *authority) sign(template *x509.Certificate, key *ecdsa.PrivateKey) (der []byte) {
	a.t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return der
}

func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// trusting returns a configuration that trusts the authority.
func (a *authority) trusting() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.parsed())
	return &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
}

func (a *authority) parsed() *x509.Certificate {
	a.t.Helper()
	content, err := os.ReadFile(a.file)
	if err != nil {
		a.t.Fatal(err)
	}
	block, _ := pem.Decode(content)
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		a.t.Fatal(err)
	}
	return c
}

// serial returns the serial number of the certificate that the process shows to a new connection.
func (a *authority) serial(p *process) int64 {
	a.t.Helper()
	c, err := tls.Dial("tcp", hostOf(p), a.trusting())
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
}

// hostOf returns the host and port of the process.
func hostOf(p *process) string { return p.url[strings.LastIndex(p.url, "/")+1:] }

// startSecure starts clockd on SQLite with the certificate.
func startSecure(t *testing.T, certFile, keyFile string, env ...string) *process {
	t.Helper()
	p := start(t, append(env,
		"CLOCKD_DATABASE_URL="+sqliteFile(t), "CLOCKD_TLS_CERT="+certFile, "CLOCKD_TLS_KEY="+keyFile)...)
	if !strings.HasPrefix(p.url, "https://") {
		t.Fatalf("clockd says that it listens on %s", p.url)
	}
	return p
}

// fetched is a whole response.
type fetched struct {
	status int
	proto  string // HTTP/1.1 or HTTP/2.0
	length int64  // as the headers say it
	body   string
}

// fetch sends a request.
func fetch(t *testing.T, client *http.Client, method, url, body string) fetched {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	content, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fetched{r.StatusCode, r.Proto, r.ContentLength, string(content)}
}

// All clients of the port reach it over TLS: HTTP/1.1, HTTP/2, streams, gRPC and the commands.
func TestPortSpeaksTLS(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueIn()
	p := startSecure(t, cert, key)
	one := &http.Transport{TLSClientConfig: ca.trusting()}
	two := &http.Transport{TLSClientConfig: ca.trusting(), ForceAttemptHTTP2: true}
	alarms := p.url + "/v1/applications/shop/alarms/"
	for name, transport := range map[string]*http.Transport{"HTTP/1.1": one, "HTTP/2.0": two} {
		client := &http.Client{Transport: transport}
		t.Cleanup(transport.CloseIdleConnections)
		set := fetch(t, client, http.MethodPut, alarms+name, `{"delay":0}`)
		if set.status != http.StatusCreated || set.proto != name {
			t.Errorf("a set over %s: %d over %s", name, set.status, set.proto)
		}
		file := fetch(t, client, http.MethodGet, p.url+"/ui/app.js", "")
		if file.length != int64(len(file.body)) || !strings.Contains(file.body, "import") {
			t.Errorf("a file over %s: %d bytes of %d", name, len(file.body), file.length)
		}
		stream, err := client.Get(p.url + "/v1/applications/shop/rings")
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(stream.Body)
		for rung := false; !rung; rung = strings.Contains(lines.Text(), `"business_id":"`+name+`"`) {
			if !lines.Scan() {
				t.Fatalf("the stream over %s ends: %v", name, lines.Err())
			}
		}
		_ = stream.Body.Close()
	}

	conn, err := grpc.NewClient(hostOf(p), grpc.WithTransportCredentials(credentials.NewTLS(ca.trusting())))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	asked, got := &clockdv1.GetRequest{Application: "shop", BusinessId: "HTTP/1.1"}, new(clockdv1.GetResponse)
	if err := conn.Invoke(t.Context(), procedurePath("Get"), asked, got); err != nil ||
		got.Alarm.GetBusinessId() != "HTTP/1.1" {
		t.Errorf("gRPC: %v, %v", got, err)
	}

	env := []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_CA=" + ca.file}
	if out, code := typed(t, env, "set", "shop", "a", "--in", "1h"); code != 0 {
		t.Errorf("clockd set: exit code %d, %s", code, out)
	}
}

// A client without TLS is told so, and a silent client is cut.
func TestPortWithTLSRefusesOtherClients(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueIn()
	p := startSecure(t, cert, key)
	silent, err := net.Dial("tcp", hostOf(p))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()

	plain := fetch(t, http.DefaultClient, http.MethodGet, "http://"+hostOf(p)+"/healthz", "")
	if plain.status != http.StatusBadRequest || strings.Count(plain.body, "https://") != 1 {
		t.Errorf("plain HTTP gets %d %s", plain.status, plain.body)
	}
	old := ca.trusting()
	old.MinVersion, old.MaxVersion = tls.VersionTLS10, tls.VersionTLS11
	if _, err := tls.Dial("tcp", hostOf(p), old); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	for _, c := range []struct {
		want string
		env  []string
	}{
		{"certificate is not trusted", []string{"CLOCKD_SERVER=" + p.url}},
		{"the URL must begin with https://", []string{"CLOCKD_SERVER=http://" + hostOf(p)}},
		{"does not begin with https://", []string{"CLOCKD_SERVER=http://" + hostOf(p), "CLOCKD_CA=" + ca.file}},
		{"no certificate in PEM", []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_CA=" + key}},
		{"needs its key", []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_CA=" + ca.file, "CLOCKD_CERT=" + cert}},
	} {
		if out, code := typed(t, c.env, "get", "shop", "a"); code == 0 || !strings.Contains(out, c.want) {
			t.Errorf("%v: exit code %d, printed\n%s\nwant %s", c.env, code, out, c.want)
		}
	}
	if n, err := silent.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("a silent client reads %d bytes, %v", n, err)
	}
}

// A replaced certificate holds for new connections. Unusable files change nothing.
func TestCertificateIsReplacedWhileThePortServes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueIn()
	p := startSecure(t, cert, key)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.trusting(), DisableKeepAlives: true}}
	check := func() string {
		ready := fetch(t, client, http.MethodGet, p.url+"/readyz", "")
		return regexp.MustCompile(`"certificate","status":"[^}]*`).FindString(ready.body)
	}
	if got := check(); !strings.Contains(got, `"ok"`) {
		t.Errorf("at first the certificate is %s", got)
	}
	if err := os.WriteFile(key, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the log has the fault", func() bool { // without a new connection
		return strings.Contains(p.log.String(), "the certificate in use stays")
	})
	if got := check(); !strings.Contains(got, "new certificate is not in use") {
		t.Errorf("with an unusable file the certificate is %s", got)
	}
	if got := ca.serial(p); got != 2 {
		t.Errorf("with an unusable file the certificate is %d", got)
	}
	next := ca.issue(cert, key, time.Hour)
	eventually(t, "the next certificate is in use", func() bool { return ca.serial(p) == next })
	if got := check(); !strings.Contains(got, `the certificate expires at`) {
		t.Errorf("a certificate that ends in an hour is %s", got)
	}
	ca.issue(cert, key, -time.Hour)
	eventually(t, "a certificate that has expired is refused", func() bool {
		return strings.Contains(check(), "has expired")
	})
	if ca.serial(p) != next {
		t.Error("a certificate that has expired is in use")
	}
	last := ca.issue(cert, key, 30*24*time.Hour)
	if err := p.cmd.Process.Signal(syscall.SIGHUP); err != nil { // must not end the process
		t.Fatal(err)
	}
	eventually(t, "the last certificate is in use", func() bool { return ca.serial(p) == last })
}

func TestClientsNeedACertificateOfTheAuthority(t *testing.T) {
	t.Parallel()
	ca, other := newAuthority(t), newAuthority(t)
	cert, key := ca.issueIn()
	p := startSecure(t, cert, key, "CLOCKD_TLS_CLIENT_CA="+ca.file)
	server := []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_CA=" + ca.file}
	with := func(cert, key string) []string { return append(server[:2:2], "CLOCKD_CERT="+cert, "CLOCKD_KEY="+key) }
	if out, code := typed(t, server, "nodes"); code == 0 || !strings.Contains(out, "CLOCKD_CERT") {
		t.Errorf("without a certificate: exit code %d, %s", code, out)
	}
	if out, code := typed(t, with(other.issueIn()), "nodes"); code == 0 || !strings.Contains(out, "CLOCKD_CERT") {
		t.Errorf("with a certificate of another authority: %s", out)
	}
	if out, code := typed(t, with(ca.issueIn()), "nodes"); code != 0 {
		t.Errorf("with a certificate: exit code %d, %s", code, out)
	}
	untrusting := []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_CA=" + other.file}
	if out, code := typed(t, untrusting, "nodes"); code == 0 || !strings.Contains(out, "CLOCKD_CA or --ca") {
		t.Errorf("with another authority: exit code %d, %s", code, out)
	}
}

func TestUnusableFilesOfTLSAreRefusedAtStart(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueIn()
	_, foreign := ca.issueIn()
	for want, env := range map[string][]string{
		"CLOCKD_TLS_KEY":           {"CLOCKD_TLS_CERT=" + cert},
		"CLOCKD_TLS_CERT":          {"CLOCKD_TLS_CLIENT_CA=" + ca.file},
		"does not match":           {"CLOCKD_TLS_CERT=" + cert, "CLOCKD_TLS_KEY=" + foreign},
		"CLOCKD_METRICS_LISTEN":    {"CLOCKD_METRICS_LISTEN=9090"},
		"CLOCKD_TLS_CERT: open ":   {"CLOCKD_TLS_CERT=" + cert + "x", "CLOCKD_TLS_KEY=" + key},
		"are the same address":     {"CLOCKD_METRICS_LISTEN=127.0.0.1:1", "CLOCKD_LISTEN=127.0.0.1:1"},
		"has no certificate in PE": {"CLOCKD_TLS_CERT=" + cert, "CLOCKD_TLS_KEY=" + key, "CLOCKD_TLS_CLIENT_CA=" + key},
	} {
		env = append(env, "CLOCKD_DATABASE_URL="+sqliteFile(t))
		if out, code := typed(t, env, "serve"); code != exitUsage || !strings.Contains(out, want) {
			t.Errorf("%v: exit code %d, printed\n%s\nwant %s", env, code, out, want)
		}
	}
}

// The metrics port has metrics, probes and profiles, also while the node starts. The first port has no metrics then.
func TestMetricsHaveAPortOfTheirOwn(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	cert, key := ca.issueIn()
	p := startSecure(t, cert, key, "CLOCKD_METRICS_LISTEN=127.0.0.1:0", "CLOCKD_TLS_CLIENT_CA=") // empty: not given
	metrics := metricsURL(t, p)
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.trusting()}}
	for _, c := range []struct {
		url    string
		status int
		want   string
	}{
		{metrics + "/metrics", http.StatusOK, "clockd_http_certificate_expires_timestamp_seconds"},
		{metrics + "/healthz", http.StatusOK, "ok"},
		{metrics + "/readyz", http.StatusOK, `"ready":true`},
		{metrics + "/debug/pprof/goroutine?debug=1", http.StatusOK, "goroutine profile"},
		{metrics + "/debug/pprof/cmdline", http.StatusNotFound, ""},
		{metrics + "/debug/pprof/symbol", http.StatusNotFound, ""},
		{metrics + "/debug/pprof/profile?seconds=301", http.StatusBadRequest, "seconds must be"},
		{metrics + "/debug/pprof/heap?seconds=x", http.StatusBadRequest, "seconds must be"},
		{metrics + "/v1/nodes", http.StatusNotFound, ""},
		{p.url + "/metrics", http.StatusNotFound, "CLOCKD_METRICS_LISTEN"},
		{p.url + "/debug/pprof/goroutine", http.StatusNotFound, "unknown_path"},
		{p.url + "/healthz", http.StatusOK, "ok"},
		{p.url + "/readyz", http.StatusOK, `"ready":true`},
	} {
		if got := fetch(t, client, http.MethodGet, c.url, ""); got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %.300s", c.url, got.status, got.body)
		}
	}
	waiting := starting(t, "CLOCKD_DATABASE_URL=postgres://clockd@"+freeAddress(t)+"/clockd",
		"CLOCKD_METRICS_LISTEN=127.0.0.1:0")
	ready := fetch(t, client, http.MethodGet, metricsURL(t, waiting)+"/readyz", "")
	if ready.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz of a node that starts: %d %s", ready.status, ready.body)
	}
}

// metricsURL returns the URL of the metrics port, which the log names.
func metricsURL(t *testing.T, p *process) (url string) {
	t.Helper()
	eventually(t, "the log names the metrics port", func() bool {
		found := regexp.MustCompile(`metrics=(127\.0\.0\.1:\d+)`).FindStringSubmatch(p.log.String())
		if found != nil {
			url = "http://" + found[1]
		}
		return found != nil
	})
	return url
}
