package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// proxies holds the counting proxies between a testbed's nodes and their servers, and the URLs that lead through them.
// A server that cannot be reached by TCP without TLS has no proxy; its traffic is not counted.
type proxies struct {
	database, broker *countingProxy
	slowBroker       *slowdown // of what the broker sends; nil: none

	databaseURL, amqpURL string
}

// readable describes a URL scheme whose traffic the bench can parse.
type readable struct {
	protocol protocol
	port     string           // port if the URL names none
	plain    func(url.Values) // turns TLS off in the URL's parameters
}

var readables = map[string]readable{
	"mysql":      {mysqlProtocol, "3306", func(v url.Values) { v.Del("tls") }},
	"mariadb":    {mysqlProtocol, "3306", func(v url.Values) { v.Del("tls") }},
	"postgres":   {postgresProtocol, "5432", func(v url.Values) { v.Set("sslmode", "disable") }},
	"postgresql": {postgresProtocol, "5432", func(v url.Values) { v.Set("sslmode", "disable") }},
	"amqp":       {amqpProtocol, "5672", func(url.Values) {}},
}

// connect makes the proxies. close must be called also after an error, because one proxy may exist.
func (ws *proxies) connect(ctx context.Context, databaseURL, amqpURL string) (err error) {
	if ws.database, ws.databaseURL, err = proxied(ctx, databaseURL, nil); err != nil {
		return err
	}
	ws.broker, ws.amqpURL, err = proxied(ctx, amqpURL, ws.slowBroker)
	return err
}

// proxied returns a proxy to the server of a URL, and the URL that leads through the proxy. slow slows the server down;
// nil: nothing does. If the bench cannot parse the traffic, it returns no proxy and the URL itself.
func proxied(ctx context.Context, raw string, slow *slowdown) (*countingProxy, string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "", fmt.Errorf("read the URL of a counted server: %w", err)
	}
	kind, ok := readables[u.Scheme]
	if !ok || u.Hostname() == "" {
		return nil, raw, nil
	}
	port := u.Port()
	if port == "" {
		port = kind.port
	}
	w, err := newCountingProxy(ctx, net.JoinHostPort(u.Hostname(), port), kind.protocol, slow)
	if err != nil {
		return nil, "", err
	}
	query := u.Query()
	kind.plain(query)
	u.Host, u.RawQuery = w.address(), query.Encode()
	return w, u.String(), nil
}

func (ws *proxies) close() error {
	var errs []error
	for _, w := range []*countingProxy{ws.database, ws.broker} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	return errors.Join(errs...)
}
