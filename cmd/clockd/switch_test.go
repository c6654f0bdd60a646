package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// follow collects the application's rings from the streams of whatever processes url returns. It connects again when a
// stream ends, and while the application has none.
func follow(t *testing.T, r *receiver, application string, url func() string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	following.Go(func() {
		for ctx.Err() == nil {
			r.readStream(ctx, url()+"/v1/applications/"+application+"/rings")
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		following.Wait()
	})
}

// readStream collects rings until the stream ends.
func (r *receiver) readStream(ctx context.Context, url string) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		return
	}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		data, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		var d struct {
			MessageID  string    `json:"message_id"`
			BusinessID string    `json:"business_id"`
			RingAt     time.Time `json:"ring_at"`
		}
		if json.Unmarshal([]byte(data), &d) == nil {
			r.add(receivedRing{messageID: d.MessageID, businessID: d.BusinessID, arrived: time.Now(), target: d.RingAt})
		}
	}
}

// An application is switched between the broker and the stream again and again under load, and a node is killed in the
// middle. Every alarm rings, at the broker or at the stream. Nothing rings early, and copies carry the same message id.
func TestSwitchedApplicationLosesNoAlarm(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, b := e.open(t), dialBroker(t, amqpURL())
			env := append([]string{"CLOCKD_DATABASE_URL=" + databaseURL}, b.env()...)
			steady := start(t, env...)
			victim := steady
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			var mu sync.Mutex
			nodes := []*process{steady, victim}
			node := func(i int) *process {
				mu.Lock()
				defer mu.Unlock()
				return nodes[i]
			}
			broker, stream := b.receive("shop"), &receiver{}
			for i := range nodes {
				follow(t, stream, "shop", func() string { return node(i).url })
			}
			ctx, stopSetting := context.WithCancel(t.Context())
			var setting sync.WaitGroup
			set := map[string]bool{} // alarms whose set was answered
			setting.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					id := fmt.Sprintf("order-%d", i)
					for ctx.Err() == nil {
						r, err := node(0).do(http.MethodPut, alarmPath("shop", id),
							map[string]any{"delay": fmt.Sprintf("%dms", i*37%1500)})
						if err == nil && r.Status/100 == 2 {
							set[id] = true
							break
						}
						time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the node is away
					}
					time.Sleep(5 * time.Millisecond) //nolint:forbidigo // the pace of the load
				}
			})
			var slowest time.Duration
			for round := range 8 {
				target := []string{"stream", "amqp"}[round%2]
				application(t, databaseURL, "set", "shop", "--target="+target)
				begun := time.Now()
				for i := range nodes {
					eventually(t, "the node applies the target",
						func() bool { return node(i).settings("shop").AppliedTarget == target })
				}
				slowest = max(slowest, time.Since(begun))
				before := [2]int{broker.number(), stream.number()}
				eventually(t, "rings arrive at the new target", func() bool {
					return [2]int{stream.number() - before[1], broker.number() - before[0]}[round%2] > 50
				})
				if round == 3 || round == 4 { // once with each target
					i := min(1, len(nodes)-1)
					node(i).kill()
					again := start(t, env...)
					mu.Lock()
					if nodes[0] == nodes[1] {
						nodes[0] = again
					}
					nodes[1] = again
					mu.Unlock()
				}
			}
			stopSetting()
			setting.Wait()
			t.Logf("%d alarms; a node applied a change after at most %s", len(set), slowest)
			arrived := func() (rings map[string]bool) {
				rings = map[string]bool{}
				for _, r := range append(broker.all(), stream.all()...) {
					rings[r.businessID] = true
				}
				return rings
			}
			deadline := time.Now().Add(giveUpAfter)
			for len(arrived()) < len(set) && time.Now().Before(deadline) {
				time.Sleep(200 * time.Millisecond) //nolint:forbidigo // a killed node's rings are repeated after up to 10 s
			}
			messageIDs, lost := map[string]string{}, 0
			all := arrived()
			for id := range set {
				if !all[id] {
					if lost++; lost < 5 {
						t.Errorf("alarm %s did not arrive: %+v", id,
							node(0).must(http.StatusOK, http.MethodGet, alarmPath("shop", id), nil))
					}
				}
			}
			for _, r := range append(broker.all(), stream.all()...) {
				if r.arrived.Before(r.target) {
					t.Errorf("%s rang %s early", r.businessID, r.target.Sub(r.arrived))
				}
				if id, known := messageIDs[r.businessID]; known && id != r.messageID {
					t.Errorf("%s rang as %s and as %s", r.businessID, id, r.messageID)
				}
				messageIDs[r.businessID] = r.messageID
			}
			if lost > 0 {
				t.Errorf("%d of %d alarms were lost", lost, len(set))
			}
			eventually(t, "no alarm is left", func() bool {
				return node(0).inState("shop", clock.Scheduled)+node(0).inState("shop", clock.Ringing) == 0
			})
			copies := len(broker.all()) + len(stream.all()) - len(messageIDs)
			t.Logf("%d rings by the broker, %d by the stream, %d of them copies", len(broker.all()), len(stream.all()),
				copies)
		})
	}
}
