//go:build kafka

package kafka

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

// A user without the right to write to a topic gets its rings back, and other topics take theirs. No restart is needed
// once the right is there.
func TestKafkaMissingRightReturnsOnlyItsOwnRings(t *testing.T) {
	cluster, cfg := secured(t, SASLSCRAM)
	b := openOn(t, cluster, cfg)
	b.create("shop", nil)
	b.create("forbidden", nil)
	cluster.Deny(cfg.User, b.prefix+"forbidden")
	l := b.open()
	cluster.Eventually("the brokers know the right", func() bool {
		return deliverOn(t, l, rings("forbidden", 1))[0].Kind == clock.Returned
	})
	outcomes := deliverOn(t, l, append(rings("shop", 20), rings("forbidden", 20)...))
	wantKinds(t, outcomes[:20], clock.Confirmed)
	wantKinds(t, outcomes[20:], clock.Returned)
	if !strings.Contains(outcomes[20].Reason, "TOPIC_AUTHORIZATION_FAILED") {
		t.Error(outcomes[20].Reason)
	}
	cluster.Permit(cfg.User, b.prefix+"forbidden")
	cluster.Eventually("the topic takes rings again", func() bool {
		return deliverOn(t, l, rings("forbidden", 1))[0].Kind == clock.Confirmed
	})
}

// deliverOn delivers rings, on a new link if the lane has lost its own.
func deliverOn(t *testing.T, l ring.Lane, all []clock.Ring) []clock.Outcome {
	t.Helper()
	if err := l.Open(t.Context(), len(all)); err != nil {
		t.Fatal(err)
	}
	return l.Deliver(t.Context(), all, ample())
}
