package webhook

import (
	"crypto/x509"
	"net/http"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/httpcall"
)

var _ ring.Target = (*Target)(nil)

// Target sends rings to the applications' endpoints.
type Target struct {
	*httpcall.Target

	cfg       Config
	rootCAs   *x509.CertPool
	transport *http.Transport
}

// New returns a Target. It sends nothing by itself.
func New(cfg Config, deps Deps) (*Target, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Target{cfg: cfg, rootCAs: deps.RootCAs}
	var err error
	t.Target, err = httpcall.New(cfg.Config, httpcall.Deps{
		Endpoint: func(application string) (httpcall.Endpoint, bool) {
			e, ok := deps.Endpoints(application)
			return endpoint{Webhook: e, target: t}, ok
		},
		Registerer: deps.Registerer, Dial: deps.Dial,
		Metrics: httpcall.MetricNames{Prefix: "clockd_webhook_", Noun: "requests", Label: "status", Classes: statusClasses, Help: "the class of their response's status (2xx)"},
	})
	if err != nil {
		return nil, err
	}
	t.transport = t.newTransport()
	return t, nil
}

// Close ends all requests and connections, and waits for them. Call it after the loop has ended.
func (t *Target) Close() {
	t.Target.Close()
	t.transport.CloseIdleConnections()
}

// endpoint is the endpoint of an application, as its settings name it.
type endpoint struct {
	*clock.Webhook

	target *Target
}

// NewSender returns the sender of the endpoint.
func (e endpoint) NewSender() (httpcall.Sender, error) {
	s, err := newSender(e.Webhook, e.target.cfg.UserAgent)
	if err != nil {
		return nil, err
	}
	s.transport = e.target.transport
	return s, nil
}
