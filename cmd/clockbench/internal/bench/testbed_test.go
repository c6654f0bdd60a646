package bench

import (
	"testing"
	"time"
)

// A node can be added to a testbed, killed, and started again under its name. close stops the running nodes.
func TestTestbedStartsKillsAndRestartsNodes(t *testing.T) {
	cfg := quickConfig(setting(t, "CLOCKD_TEST_MYSQL_URL"), setting(t, "CLOCKD_TEST_AMQP_URL"))
	r := &run{cfg: cfg, progress: newProgress(nil)}
	b, err := r.makeTestbed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := b.close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	second, err := b.startNode(t.Context(), "bench2")
	if err != nil {
		t.Fatal(err)
	}
	second.kill()
	if readiness(t.Context(), second.url) == nil {
		t.Error("a killed node responds")
	}
	again, err := b.startNode(t.Context(), second.node)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []*child{b.child, again} {
		// processor time is counted in ticks of 10 ms, and a node may start without using a whole tick
		for deadline := time.Now().Add(30 * time.Second); ; {
			if err := readiness(t.Context(), c.url); err != nil || c.peakRSS() <= 0 {
				t.Fatalf("%s: %v, %d bytes", c.node, err, c.peakRSS())
			}
			if c.cpu() > 0 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s: no processor time", c.node)
			}
		}
	}
}
