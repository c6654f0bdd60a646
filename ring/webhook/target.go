package webhook

import (
	"crypto/x509"
	"net/http"
	"net/url"

	"github.com/clockd/clockd/clock"
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
		Endpoint: func(receiver string) (httpcall.Endpoint, bool) {
			e := deps.Endpoints(receiver)
			return openEndpoint{Endpoint: e, target: t}, e != nil
		},
		OwnSender: func(r *clock.Ring) (httpcall.Sender, error) {
			e, err := deps.Own(r)
			if err != nil {
				return nil, err
			}
			return newSender(e, cfg.UserAgent), nil
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

// openEndpoint is the endpoint of an application with the target that sends to it.
type openEndpoint struct {
	*Endpoint

	target *Target
}

// NewSender returns the sender of the endpoint.
func (e openEndpoint) NewSender() (httpcall.Sender, error) {
	if err := Part.Validate(e.Endpoint); err != nil {
		return nil, err
	}
	return newSender(e.Endpoint, e.target.cfg.UserAgent), nil
}
