package lease

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Values of the label change of clockd_preload_lease_changes_total.
const (
	changeTaken = "taken"
	changeGiven = "given" // yielded by this node
	changeLost  = "lost"  // taken by another node after the lease expired
)

type metrics struct {
	shards, nodes prometheus.Gauge
	changes       *prometheus.CounterVec
	errors        prometheus.Counter
	lost          *prometheus.GaugeVec
}

func newMetrics(reg prometheus.Registerer, abilitiesOfTargets []string) metrics {
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "clockd_preload_" + name, Help: help})
	}
	m := metrics{
		shards: gauge("shards", "Shards that this node owns."),
		nodes:  gauge("nodes", "Living nodes, this node included."),
		changes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_preload_lease_changes_total",
			Help: "Shards that this node took, yielded (given), or lost because it did not renew the lease in time.",
		}, []string{"change"}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "clockd_preload_lease_errors_total", Help: "Failed attempts to renew leases and to read the nodes.",
		}),
	}
	m.lost = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "clockd_preload_ability_lost_seconds",
		Help: "Time since this node lost the ability (read, amqp, kafka); 0 while it has the ability.",
	}, []string{"ability"})
	for _, ability := range append([]string{AbilityRead}, abilitiesOfTargets...) {
		m.lost.WithLabelValues(ability)
	}
	for _, c := range []string{changeTaken, changeGiven, changeLost} {
		m.changes.WithLabelValues(c)
	}
	reg.MustRegister(m.shards, m.nodes, m.changes, m.errors, m.lost)
	return m
}

// observe sets the numbers of shards and nodes, and counts the changes of the last look.
func (m metrics) observe(shards, nodes, taken, given, lost int) {
	m.shards.Set(float64(shards))
	m.nodes.Set(float64(nodes))
	m.changes.WithLabelValues(changeTaken).Add(float64(taken))
	m.changes.WithLabelValues(changeGiven).Add(float64(given))
	m.changes.WithLabelValues(changeLost).Add(float64(lost))
}

// observeLosses sets how long the node has lacked each of the named abilities.
func (m metrics) observeLosses(a abilities, names []string, now time.Time) {
	for _, ability := range names {
		m.lost.WithLabelValues(ability).Set(a.lostFor(ability, now).Seconds())
	}
}
