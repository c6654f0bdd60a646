package main

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// blockersOf returns the blockers of an alarm, each as its target, its code and its detail.
func blockersOf(t *testing.T, c *client.Client, application, id string) (all []string) {
	t.Helper()
	a, err := c.Get(t.Context(), application, id)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range a.Blockers {
		all = append(all, b.Target+" "+b.Code+" "+b.Detail)
	}
	return all
}

// TestReadsTellWhyDueAlarmsWait sets due alarms whose rings have no receiver, and reads why they wait: one by one, in
// lists, and from the command line.
func TestReadsTellWhyDueAlarmsWait(t *testing.T) {
	t.Parallel()
	b := dialBroker(t, amqpURL())
	databaseURL := mariadb(t)
	p := start(t, append(b.env(), "CLOCKD_DATABASE_URL="+databaseURL)...)
	c, err := client.New(p.url)
	if err != nil {
		t.Fatal(err)
	}
	application(t, databaseURL, "set", "stream", "--target", "stream")
	application(t, databaseURL, "set", "worker", "--target", "pull")
	application(t, databaseURL, "pause", "halted")
	for _, name := range []string{"misspelt", "stream", "worker", "halted"} {
		p.must(http.StatusCreated, http.MethodPut, alarmPath(name, "1"), map[string]any{"delay": "0s"})
	}
	p.must(http.StatusCreated, http.MethodPut, alarmPath("stream", "later"), map[string]any{"delay": "1h"})
	for name, want := range map[string]string{
		"misspelt": "amqp held no ring is delivered, so clockd tries one due alarm of the application every 1s: 312 NO_ROUTE",
		"stream":   "stream no_receiver no subscriber is connected",
		"worker":   "pull no_receiver no worker has asked",
		"halted":   " paused the application is paused",
	} {
		eventually(t, name+" waits: "+want, func() bool {
			all := blockersOf(t, c, name, "1")
			return len(all) == 1 && strings.HasPrefix(all[0], want)
		})
	}
	if all := blockersOf(t, c, "stream", "later"); len(all) > 0 {
		t.Errorf("an alarm that is not due has blockers %q", all)
	}
	if all := p.log.String(); !strings.Contains(all, `msg="due alarms of an application wait"`) ||
		!strings.Contains(all, "application=stream") {
		t.Errorf("the log does not tell why alarms wait:\n%s", all)
	}
	run := func(args ...string) string {
		out, err := command([]string{"CLOCKD_SERVER=" + p.url}, args...).CombinedOutput()
		if err != nil {
			t.Fatalf("clockd %s: %v, printed %s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	for command, want := range map[string]string{
		"get misspelt 1":   "\n  waits: amqp: no ring is delivered",
		"get stream later": "\n  payload: none\n",
		"list worker":      "waits: pull: no worker has asked",
		"search 1":         "waits: the application is paused",
		"applications":     "stream: no subscriber is connected",
		"list stream":      "waits: stream: no subscriber is connected",
	} {
		if out := run(strings.Fields(command)...); !strings.Contains(out, want) {
			t.Errorf("clockd %s lacks %q:\n%s", command, want, out)
		}
	}
	b.declare("misspelt", amqp.Table{})
	eventually(t, "the alarm with a queue has rung", func() bool {
		return len(blockersOf(t, c, "misspelt", "1")) == 0 && p.inState("misspelt", clock.Rung) == 1
	})
}

// TestNodesNameTheNodeThatRings reads alarms at two nodes. Each node knows the reasons of its own shards. A subscriber
// at one node counts for both.
func TestNodesNameTheNodeThatRings(t *testing.T) {
	t.Parallel()
	databaseURL := mariadb(t)
	nodes := []*process{startNamed(t, "a", databaseURL, nil), startNamed(t, "b", databaseURL, nil)}
	eventually(t, "both nodes own shards", func() bool { return slices.Equal(nodes[0].shares(), []int{32, 32}) })
	application(t, databaseURL, "set", "lost", "--target", "kafka", "--kafka-topic", "t")
	for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12"} {
		nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("lost", id), map[string]any{"delay": "0s"})
		nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("stream", id), map[string]any{"delay": "0s"})
	}
	count := func(p *process, name, part string) (n int) {
		c, err := client.New(p.url)
		if err != nil {
			t.Fatal(err)
		}
		for a, err := range c.List(t.Context(), name, client.Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if len(a.Blockers) == 1 && strings.Contains(a.Blockers[0].Code+" "+a.Blockers[0].Detail, part) {
				n++
			}
		}
		return n
	}
	for _, p := range nodes {
		eventually(t, "each alarm has a reason at each node", func() bool {
			here, elsewhere := count(p, "lost", "no_target this node has no target kafka"), count(p, "lost",
				"other_node the node with shard")
			return here > 0 && elsewhere > 0 && here+elsewhere == 12 && count(p, "stream", "no_receiver") == 12
		})
	}
	ring := nodes[1].listen("stream")
	eventually(t, "the subscriber of the other node has all rings",
		func() bool { d, _ := ring.byID(); return len(d) == 12 })
	nodes[0].must(http.StatusCreated, http.MethodPut, alarmPath("stream", "late"), map[string]any{"delay": "1h"})
	c, err := client.New(nodes[0].url)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the node without the subscriber knows no reason any more", func() bool {
		page, err := c.ApplicationPage(t.Context(), client.ApplicationFilter{})
		if err != nil || len(page.Applications) != 2 {
			t.Fatalf("applications %+v, %v", page, err)
		}
		return len(page.Applications[1].Blockers) == 0
	})
}
