package inbox

import (
	"log/slog"
	"maps"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

func TestMain(m *testing.M) { os.Exit(rabbittest.Main(m)) }

// config configures the inboxes of a node.
type config struct {
	url          string
	writeTimeout time.Duration
	queue        string // of answers
	prefetch     int    // of answers
	intake       IntakeConfig
	warnings     *warnings // of the node
}

// configOf returns a configuration for the broker.
func configOf(b *rabbittest.Broker) config {
	return config{
		url: b.URL, writeTimeout: 5 * time.Second, queue: b.AnswerQueue(), prefetch: 500, intake: DefaultIntakeConfig(),
		warnings: &warnings{byRole: map[string][]string{}},
	}
}

// deps returns the dependencies of the node's inboxes.
func (c config) deps(tb testing.TB, log *slog.Logger) Deps {
	tb.Helper()
	hosts, err := wire.ParseURL(c.url)
	if err != nil {
		tb.Fatal(err)
	}
	metrics, err := NewMetrics(nil)
	if err != nil {
		tb.Fatal(err)
	}
	labels := []string{"role", "host"}
	return Deps{
		Broker: wire.NewBroker(wire.BrokerConfig{
			Hosts: hosts, ConnectionName: "clockd test", Heartbeat: 10 * time.Second, DialTimeout: 10 * time.Second,
			WriteTimeout: c.writeTimeout, BackoffMin: 20 * time.Millisecond, BackoffMax: 200 * time.Millisecond,
			GatherBytes: 128 << 10, Log: log,
			Dials:       prometheus.NewCounterVec(prometheus.CounterOpts{Name: "dials"}, labels),
			Connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "connections"}, labels),
			DialErrors:  prometheus.NewCounter(prometheus.CounterOpts{Name: "dial_errors"}),
			Blocked:     func(*wire.Link, string) {}, Unblocked: func(*wire.Link) {},
		}),
		Metrics: metrics, SetupErrors: prometheus.NewCounter(prometheus.CounterOpts{Name: "setup_errors"}), Log: log,
		Warn: c.warnings.set,
	}
}

// dialsTo returns how often the role has dialled the host.
func dialsTo(b *wire.Broker, role, host string) float64 {
	return testutil.ToFloat64(b.Dials.WithLabelValues(role, host))
}

// warnings are what the inboxes of a node warn of.
type warnings struct {
	mu     sync.Mutex
	byRole map[string][]string
}

func (w *warnings) set(role string, warnings []string) (changed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	changed = !slices.Equal(w.byRole[role], warnings)
	w.byRole[role] = warnings
	return changed
}

// all returns the warnings of all roles, in the order of the roles.
func (w *warnings) all() (all []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, role := range slices.Sorted(maps.Keys(w.byRole)) {
		all = append(all, w.byRole[role]...)
	}
	return all
}
