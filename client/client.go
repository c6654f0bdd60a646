package client

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Client calls one clockd service. Make it with New.
type Client struct {
	base       string // URL of the service, without a slash at the end
	http       *http.Client
	tries      int
	tryTimeout time.Duration
	by         string
	token      string
	tls        *tls.Config // of the default transport; nil: the standard library's
}

// Option changes a Client that New makes.
type Option func(*Client)

// WithHTTPClient makes calls go through h, for its transport (TLS, proxy, tracing). Its Timeout must be 0, because it
// would end streams. Redirects are not followed: clockd sends none. The default keeps up to 64 idle connections to the
// service.
func WithHTTPClient(h *http.Client) Option {
	return func(c *Client) {
		own := *h
		c.http = &own
	}
}

// WithTLS sets the authorities of the service's certificate, or a certificate of this program. A client of
// WithHTTPClient has its own transport, and ignores it.
func WithTLS(cfg *tls.Config) Option {
	return func(c *Client) { c.tls = cfg }
}

// WithTries sets the most tries of a call; default 5, 1: no call is repeated.
func WithTries(n int) Option {
	return func(c *Client) { c.tries = n }
}

// WithTryTimeout sets the time for one try; default 20 s, which is longer than the service takes (15 s). If the time or
// the context's deadline is shorter, the request tells the service, which then refuses at once what would take longer.
func WithTryTimeout(d time.Duration) Option {
	return func(c *Client) { c.tryTimeout = d }
}

// WithName sets the name of this program or person in answers to rings, for reports. The default is the client's
// address.
func WithName(name string) Option {
	return func(c *Client) { c.by = name }
}

// WithToken sets the access token of this program or person. Use it over TLS, or inside a trusted network: each request
// has the token. The default is none.
func WithToken(token string) Option {
	return func(c *Client) { c.token = token }
}

// ErrToken is the refusal of New for a text that cannot be a token. It does not quote the token.
var ErrToken = errors.New("the access token has a line break, a blank or another character that no token has")

// Other errors of New. None quotes the URL.
var (
	errServerURL   = errors.New("the server's URL must be like http://127.0.0.1:8080")
	errTries       = errors.New("a call needs at least 1 try")
	errTryTimeout  = errors.New("the time for a try must be positive")
	errHTTPTimeout = errors.New("the HTTP client's Timeout must be 0, because it would end streams; use WithTryTimeout")
)

// New returns a client of the service at server, a URL like http://127.0.0.1:8080. It may have a path, for a service
// behind a proxy. New opens no connection.
func New(server string, options ...Option) (*Client, error) {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, errServerURL
	}
	c := &Client{base: strings.TrimRight(u.String(), "/"), tries: 5, tryTimeout: 20 * time.Second}
	for _, o := range options {
		o(c)
	}
	if c.http == nil {
		c.http = &http.Client{Transport: newTransport(c.tls)}
	}
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	switch {
	case c.tries < 1:
		return nil, errTries
	case strings.ContainsFunc(c.token, func(r rune) bool { return r <= ' ' || r > '~' }):
		return nil, ErrToken
	case c.tryTimeout <= 0:
		return nil, errTryTimeout
	case c.http.Timeout != 0:
		return nil, errHTTPTimeout
	}
	return c, nil
}

// idleConnections is the most idle connections that the default transport keeps. The standard library's default is 2,
// so most calls of a busy program would open a connection.
const idleConnections = 64

func newTransport(secured *tls.Config) *http.Transport {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // a program has replaced it
		t = &http.Transport{Proxy: http.ProxyFromEnvironment}
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = idleConnections
	t.DisableCompression = true // clockd does not compress
	if secured != nil {
		t.TLSClientConfig = secured
	}
	return t
}

// CloseIdleConnections closes connections that no call uses.
func (c *Client) CloseIdleConnections() { c.http.CloseIdleConnections() }
