package webhook

import (
	"crypto/x509"
	"net/http"
	"net/url"

	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/httpcall"
)

var _ ring.Target = (*Target)(nil)

// Target sends rings to the applications' endpoints.
type Target struct {
	*httpcall.Target

	cfg     Config
	rootCAs *x509.CertPool
	proxy   func(*http.Request) (*url.URL, error) // proxy of a request; tests replace it before the first delivery
}

// New returns a Target. It sends nothing by itself.
func New(cfg Config, deps Deps) (*Target, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	t := &Target{cfg: cfg, rootCAs: deps.RootCAs, proxy: http.ProxyFromEnvironment}
	if deps.Dial == nil && cfg.EnvironmentProxy {
		guard, err := httpcall.NewGuard(cfg.Allow...)
		if err != nil {
			return nil, err
		}
		deps.Dial = dialProxyOr(guard.DialContext)
	}
	var err error
	t.Target, err = httpcall.New(cfg.Config, httpcall.Deps{
		Endpoint: func(application string) (httpcall.Endpoint, bool) {
			e, ok := deps.Endpoints(application)
			return endpoint{Webhook: e, target: t}, ok
		},
		Registerer: deps.Registerer, Dial: deps.Dial,
		NewTransport: func() httpcall.Transport { return proxied{t.newTransport()} },
		Metrics: httpcall.MetricNames{Prefix: "clockd_webhook_", Noun: "requests", Label: "status",
			Classes: statusClasses, Help: "the class of their response's status (2xx)"},
	})
	if err != nil {
		return nil, err
	}
	return t, nil
}

// endpoint is the endpoint of an application, as its settings name it.
type endpoint struct {
	*settings.Webhook

	target *Target
}

// NewSender returns the sender of the endpoint.
func (e endpoint) NewSender() (httpcall.Sender, error) {
	return newSender(e.Webhook, e.target.cfg.UserAgent)
}
