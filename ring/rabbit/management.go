package rabbit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// managementBytes bounds a response of the management API, in bytes.
const managementBytes = 32 << 20

// management asks the broker's management API about one vhost. Any goroutine may use it.
type management struct {
	base       string // the API's URL without user, password and trailing slash
	user, pass string
	vhost      string
	client     *http.Client
}

// errManagementURL describes a valid URL. It does not quote the invalid one.
var errManagementURL = errors.New("rabbit: the management URL is not valid: it must be like http://user:password@host:15672 (or https://), " +
	"with reserved characters in user and password percent-encoded")

// newManagement returns nil for an empty URL. It does no I/O.
func newManagement(raw, vhost string) (*management, error) {
	if raw == "" {
		return nil, nil
	}
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" ||
		u.Fragment != "" ||
		strings.Contains(u.Path, "@") { // a password with an unescaped "#", "?" or "/" parses too
		return nil, errManagementURL
	}
	m := &management{vhost: vhost, client: &http.Client{Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, // requests are rare
	}}}
	m.user = u.User.Username()
	m.pass, _ = u.User.Password()
	u.User = nil
	m.base = strings.TrimRight(u.String(), "/")
	return m, nil
}

// binding is a binding from the exchange, in the API's form.
type binding struct {
	Destination string `json:"destination"`
	Type        string `json:"destination_type"`
	RoutingKey  string `json:"routing_key"`
}

// bindings returns the bindings whose source is the exchange.
func (m *management) bindings(ctx context.Context, exchange string) (bindings []binding, err error) {
	err = m.get(ctx, "/api/exchanges/"+url.PathEscape(m.vhost)+"/"+url.PathEscape(exchange)+"/bindings/source",
		&bindings)
	return bindings, err
}

// queue is a queue of the vhost, in the API's form. Policy is empty for some seconds after the queue's declaration, and
// always if the broker keeps no statistics.
type queue struct {
	Name       string         `json:"name"`
	Type       string         `json:"type"`
	Durable    bool           `json:"durable"`
	AutoDelete bool           `json:"auto_delete"`
	Exclusive  bool           `json:"exclusive"`
	Arguments  map[string]any `json:"arguments"`
	Policy     map[string]any `json:"effective_policy_definition"`
}

// queues returns all queues of the vhost by name.
func (m *management) queues(ctx context.Context) (map[string]queue, error) {
	var list []queue
	err := m.get(ctx, "/api/queues/"+url.PathEscape(m.vhost)+
		"?columns=name,type,durable,auto_delete,exclusive,arguments,effective_policy_definition", &list)
	if err != nil {
		return nil, err
	}
	byName := make(map[string]queue, len(list))
	for _, q := range list {
		byName[q.Name] = q
	}
	return byName, nil
}

// get requests path and decodes the response into value.
func (m *management) get(ctx context.Context, path string, value any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, m.base+path, http.NoBody)
	if err != nil {
		return errManagementURL
	}
	request.SetBasicAuth(m.user, m.pass)
	response, err := m.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask the management API at %s: %w", m.base, unwrapURL(err))
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the management API at %s responds with %s: the user needs the tag management or monitoring, and the vhost", m.base, response.Status)
	default:
		return fmt.Errorf("the management API at %s responds with %s", m.base, response.Status)
	}
	decoder := json.NewDecoder(io.LimitReader(response.Body, managementBytes))
	decoder.UseNumber() // keeps 3600000 from becoming 3.6e+06
	if err := decoder.Decode(value); err != nil {
		return fmt.Errorf("read the response of the management API at %s: %w", m.base, err)
	}
	return nil
}

// unwrapURL removes the URL from an error of the HTTP client, because the caller's message names it.
func unwrapURL(err error) error {
	if e := (*url.Error)(nil); errors.As(err, &e) {
		return e.Err
	}
	return err
}
