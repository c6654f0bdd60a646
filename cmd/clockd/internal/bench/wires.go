package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
)

// wires are the proxies between a bed's nodes and their servers, with the URLs that lead through them. A server that is
// not reached by TCP without TLS has none: what is said to it is not counted.
type wires struct {
	database, broker *wire

	databaseURL, amqpURL string
}

// readable is a kind of URL whose traffic can be read.
type readable struct {
	protocol protocol
	port     string           // where the URL names none
	plain    func(url.Values) // asks for no TLS
}

var readables = map[string]readable{
	"mysql":      {mysqlProtocol, "3306", func(v url.Values) { v.Del("tls") }},
	"postgres":   {postgresProtocol, "5432", func(v url.Values) { v.Set("sslmode", "disable") }},
	"postgresql": {postgresProtocol, "5432", func(v url.Values) { v.Set("sslmode", "disable") }},
	"amqp":       {amqpProtocol, "5672", func(url.Values) {}},
}

// connect makes the proxies; close ends those that were made, after an error too.
func (ws *wires) connect(ctx context.Context, databaseURL, amqpURL string) (err error) {
	if ws.database, ws.databaseURL, err = through(ctx, databaseURL); err != nil {
		return err
	}
	ws.broker, ws.amqpURL, err = through(ctx, amqpURL)
	return err
}

// through returns a proxy to the server that the URL names, and the URL that leads through it; the URL itself and no
// proxy where it cannot be read.
func through(ctx context.Context, raw string) (*wire, string, error) {
	u, err := url.Parse(raw)
	if err != nil {
		return nil, "", fmt.Errorf("read the URL of what is counted: %w", err)
	}
	kind, ok := readables[u.Scheme]
	if !ok || u.Hostname() == "" {
		return nil, raw, nil
	}
	port := u.Port()
	if port == "" {
		port = kind.port
	}
	w, err := newWire(ctx, net.JoinHostPort(u.Hostname(), port), kind.protocol)
	if err != nil {
		return nil, "", err
	}
	query := u.Query()
	kind.plain(query)
	u.Host, u.RawQuery = w.address(), query.Encode()
	return w, u.String(), nil
}

func (ws *wires) close() error {
	var errs []error
	for _, w := range []*wire{ws.database, ws.broker} {
		if w != nil {
			errs = append(errs, w.close())
		}
	}
	return errors.Join(errs...)
}
