package clockhttp

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"time"

	"golang.org/x/net/netutil"
)

// metricsPort is a further listener, with metrics, probes and profiles for the operators. It speaks plain HTTP. It closes
// last, so that the end of a stop can be watched.
type metricsPort struct {
	http     *http.Server
	listener net.Listener
	ended    chan struct{} // closed when it accepts no more connections
}

// Limits of the metrics port. Profiles leave connections for probes.
const (
	maxMetricsConnections = 512 // open connections; further ones wait
	maxProfiles           = 8   // profiles at once
	maxProfileSeconds     = 300
	metricsIdle           = 20 * time.Second // longest time of a connection between two requests
)

// listenMetrics opens the port. probes serves /healthz, /readyz and /metrics.
func listenMetrics(ctx context.Context, cfg Config, probes http.Handler, log *slog.Logger) (*metricsPort, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", cfg.MetricsListen)
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	mux := http.NewServeMux()
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		mux.Handle(path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			probes.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), metricsPortKey{}, true)))
		}))
	}
	profiles := make(chan struct{}, maxProfiles)
	mux.Handle("GET /debug/pprof/", bounded(profiles, pprof.Index)) // not /cmdline: flags may have passwords
	mux.Handle("GET /debug/pprof/cmdline", http.NotFoundHandler())
	mux.Handle("GET /debug/pprof/profile", bounded(profiles, pprof.Profile))
	mux.Handle("GET /debug/pprof/trace", bounded(profiles, pprof.Trace))
	p := &metricsPort{
		listener: netutil.LimitListener(l, maxMetricsConnections), ended: make(chan struct{}),
		http: &http.Server{
			Handler: mux, ReadHeaderTimeout: cfg.ReadHeaderTimeout, IdleTimeout: metricsIdle,
			ReadTimeout: cfg.ReadTimeout, MaxHeaderBytes: cfg.MaxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
		},
	}
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(p.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the metrics port has ended", "address", p.listener.Addr(), "err", err)
		}
	}()
	return p, nil
}

// bounded serves a profile, unless too many run, it takes too long, or a page of another site asks for it.
func bounded(running chan struct{}, profile http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seconds, err := strconv.Atoi(r.FormValue("seconds"))
		site := r.Header.Get("Sec-Fetch-Site")
		switch {
		case r.FormValue("seconds") != "" && (err != nil || seconds < 1 || seconds > maxProfileSeconds):
			http.Error(w, fmt.Sprintf("seconds must be from 1 to %d", maxProfileSeconds), http.StatusBadRequest)
			return
		case r.Header.Get("Origin") != "" || site != "" && site != "none" && site != "same-origin":
			http.Error(w, "a page of another site may not ask for a profile", http.StatusForbidden)
			return
		}
		select {
		case running <- struct{}{}:
			defer func() { <-running }()
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add((maxProfileSeconds + 60) * time.Second))
			profile(w, r)
		default:
			http.Error(w, "too many profiles at once; repeat later", http.StatusServiceUnavailable)
		}
	})
}

func (p *metricsPort) close() {
	_ = p.http.Close() // fails only because the listener is already closed
	<-p.ended
}

// metricsPortKey is the key of requests that came through the metrics port, in their contexts.
type metricsPortKey struct{}

// ofMetricsPort reports whether the request came through the metrics port.
func ofMetricsPort(r *http.Request) bool { return r.Context().Value(metricsPortKey{}) != nil }
