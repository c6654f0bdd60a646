package inbox

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Deps holds the dependencies of an inbox.
type Deps struct {
	Broker      *wire.Broker
	Metrics     *Metrics
	SetupErrors prometheus.Counter // declarations and openings of channels that failed
	Log         *slog.Logger

	// Warn replaces the warnings of a role, and reports whether they have changed.
	Warn func(role string, warnings []string) (changed bool)
}

// shared is the part that all inboxes have.
type shared struct {
	Deps
	silence time.Duration // after which a consumer is renewed
}

func newShared(deps Deps) shared { return shared{deps, silence} }
