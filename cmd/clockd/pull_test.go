package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// worker returns a client of a node that gives up after the first failure.
func (p *process) worker() *client.Client {
	p.t.Helper()
	c, err := client.New(p.url, client.WithTries(1))
	if err != nil {
		p.t.Fatal(err)
	}
	return c
}

// Workers reserve rings at two nodes, and a node is killed in the middle. Every alarm is finished once, none is early,
// and no two workers have the same ring at a time.
func TestWorkersFinishAllRingsAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
			survivor := start(t, env...)
			victim := survivor
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			application(t, databaseURL, "set", "shop", "--target=pull", "--ack-timeout=5s")
			var mu sync.Mutex
			nodes := []*process{survivor, victim}
			node := func(i int) *process {
				mu.Lock()
				defer mu.Unlock()
				return nodes[i]
			}
			for i := range nodes {
				eventually(t, "the node applies the target",
					func() bool { return node(i).settings("shop").AppliedTarget == "pull" })
			}
			const alarms = 400
			for i := range alarms {
				victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("order-%d", i)),
					map[string]any{"delay": fmt.Sprintf("%dms", 500+i*37%2500)})
			}
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			finished, holders := map[string]int{}, map[string]int{} // by business id; by message id
			var workers sync.WaitGroup
			for w := range 6 {
				workers.Go(func() {
					for ctx.Err() == nil {
						n := node(w % 2).worker()
						rings, err := n.Reserve(ctx, "shop", 1+5*(w%3), time.Second)
						if err != nil {
							time.Sleep(20 * time.Millisecond) //nolint:forbidigo // the node may be away
						}
						for _, r := range rings {
							if r.RingAt.After(time.Now()) {
								t.Errorf("%s rang early", r.BusinessID)
							}
							_, err := n.Ack(ctx, "shop", r.MessageID)
							mu.Lock()
							holders[r.MessageID]++
							if err == nil {
								finished[r.BusinessID]++
							}
							mu.Unlock()
						}
					}
				})
			}
			number := func() int {
				mu.Lock()
				defer mu.Unlock()
				return len(finished)
			}
			eventually(t, "rings are finished", func() bool { return number() > alarms/10 })
			victim.kill()
			again := start(t, env...)
			mu.Lock()
			if nodes[0] == nodes[1] {
				nodes[0] = again
			}
			nodes[1] = again
			mu.Unlock()
			eventually(t, "all alarms are finished",
				func() bool { return node(0).inState("shop", clock.Rung) == alarms })
			stop()
			workers.Wait()
			copies := 0
			for id, n := range finished {
				if n != 1 {
					t.Errorf("%s was finished %d times", id, n)
				}
			}
			for _, n := range holders {
				copies += n - 1
			}
			t.Logf("%d alarms; %d rings were given out twice", len(finished), copies)
		})
	}
}

// A worker at one node gets the rings of all shards, whichever node owns them, and on time.
func TestReserveWorksOnAnyNode(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
			nodes := []*process{start(t, env...), start(t, env...), start(t, env...)}
			application(t, databaseURL, "set", "shop", "--target=pull")
			for _, n := range nodes {
				eventually(t, "the node applies the target",
					func() bool { return n.settings("shop").AppliedTarget == "pull" })
			}
			const alarms = 100
			for i := range alarms {
				nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint(i)),
					map[string]any{"delay": "100ms"})
			}
			got := map[string]bool{}
			for range 40 {
				rings, err := nodes[2].worker().Reserve(t.Context(), "shop", 10, 2*time.Second)
				if err != nil {
					t.Fatal(err)
				}
				for _, r := range rings {
					got[r.BusinessID] = true
					if _, err := nodes[1].worker().Ack(t.Context(), "shop", r.MessageID); err != nil {
						t.Error(err)
					}
				}
				if len(got) == alarms {
					break
				}
			}
			if len(got) != alarms {
				t.Errorf("a worker at one node got %d of %d rings", len(got), alarms)
			}
		})
	}
}

// An application rings to its stream, and some of its alarms name pull. Its subscriber is at one node, and its worker
// at another one. Each gets its alarms of all shards, whichever node owns them.
func TestSubscriberAndWorkerAtDifferentNodesGetTheirAlarms(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
			nodes := []*process{start(t, env...), start(t, env...)}
			application(t, databaseURL, "set", "shop", "--alarm-targets=pull")
			for _, n := range nodes {
				eventually(t, "the node applies the settings",
					func() bool { s := n.settings("shop"); return s.AppliedVersion == s.Version })
			}
			subscriber, worker := nodes[0].listen("shop"), &receiver{}
			var working sync.WaitGroup
			t.Cleanup(working.Wait)
			working.Go(func() { nodes[1].finishRings(t, "shop", worker) })
			const alarms = 40
			for i := range alarms {
				nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("streamed-", i)),
					map[string]any{"delay": "1s"})
				nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("pulled-", i)),
					map[string]any{"delay": "1s", "target": "pull"})
			}
			eventually(t, "the subscriber and the worker have all their rings", func() bool {
				return subscriber.number() == alarms && worker.number() == alarms
			})
		})
	}
}

// An application leaves the stream for pull while a subscriber stays connected to one node. A worker at the other node
// gets all alarms, long before the subscriber counts no more.
func TestSubscriberOfAFormerTargetHoldsUpNoWorker(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
			nodes := []*process{start(t, env...), start(t, env...)}
			subscriber := nodes[0].listen("shop")
			nodes[1].must(http.StatusCreated, http.MethodPut, alarmPath("shop", "streamed"),
				map[string]any{"delay": "0s"})
			eventually(t, "the subscriber has its ring", func() bool { return subscriber.number() == 1 })
			application(t, databaseURL, "set", "shop", "--target=pull")
			for _, n := range nodes {
				eventually(t, "the node applies the target",
					func() bool { return n.settings("shop").AppliedTarget == "pull" })
			}
			worker := &receiver{}
			var working sync.WaitGroup
			t.Cleanup(working.Wait)
			working.Go(func() { nodes[1].finishRings(t, "shop", worker) })
			const alarms = 40
			for i := range alarms {
				nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("pulled-", i)),
					map[string]any{"delay": "1s"})
			}
			begun := time.Now()
			eventually(t, "the worker has all rings", func() bool { return worker.number() == alarms })
			if waited := time.Since(begun); waited > formerSubscribers/2 {
				t.Errorf("the worker waited %s for its rings", waited)
			}
		})
	}
}
