//go:build soak

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Half a million messages with delays, many more than the plugin for delayed messages is made for. None is lost, and
// memory does not grow with their number.
func TestSoakHalfAMillionDelayedMessages(t *testing.T) {
	const messages, rate, senders = 500_000, 5_000, 4
	for _, e := range sharedEngines() { // one after the other, because they share the machine
		t.Run(e.name, func(t *testing.T) {
			databaseURL, d := e.open(t), delayedMessages(t)
			p := start(t, append(d.env(), "CLOCKD_DATABASE_URL="+databaseURL)...)
			got := d.countDue(messages)
			peak := p.watchMemory()
			begun := time.Now()
			first := begun.Add(2 * time.Minute) // later than the last set, so that sets and rings are measured apart
			var wait sync.WaitGroup
			for s := range senders {
				wait.Go(func() { d.publishSpread(s, senders, messages, first, rate) })
			}
			wait.Wait()
			published := time.Since(begun)
			taken := func() float64 { return p.metric(`clockd_rabbit_intake_messages_total{result="set"}`) }
			eventually(t, "every message is an alarm", func() bool { return taken() >= messages })
			t.Logf("published in %s, %.0f a second; alarms after %s, %.0f a second; memory at most %d MiB",
				published.Round(100*time.Millisecond),
				messages/published.Seconds(), time.Since(begun).Round(100*time.Millisecond),
				messages/time.Since(begun).Seconds(), peak()>>20)
			eventually(t, "every message arrives", func() bool { return got.distinct() == messages })
			late := got.lateness()
			t.Logf("%d messages, %d copies, early %d, lateness p50 %s, p99 %s, longest %s; memory at most %d MiB",
				got.distinct(), got.copies(), got.early(),
				late[len(late)/2], late[len(late)*99/100], late[len(late)-1], peak()>>20)
			if got.early() > 0 {
				t.Errorf("%d messages arrived before their time", got.early())
			}
			if n := peak() >> 20; n > 512 {
				t.Errorf("the process took %d MiB", n)
			}
		})
	}
}

// publishSpread publishes every nth message, from the given one, with confirm. Message i is due at first plus i over
// the rate.
func (d *delayed) publishSpread(from, step, messages int, first time.Time, rate int) {
	ch, err := d.conn.Channel()
	if err == nil {
		err = ch.Confirm(false)
	}
	if err != nil {
		d.t.Error(err)
		return
	}
	const window = 500
	open := make([]*amqp.DeferredConfirmation, 0, window)
	for i := from; i < messages; i += step {
		due := first.Add(time.Duration(i) * time.Second / time.Duration(rate))
		confirm, err := ch.PublishWithDeferredConfirm(d.source, "order.cancel", true, false, amqp.Publishing{
			MessageId: fmt.Sprint(i), DeliveryMode: amqp.Persistent, Body: fmt.Appendf(nil, `{"order":%d}`, i),
			Headers: amqp.Table{"x-delay": time.Until(due).Milliseconds()},
		})
		if err != nil {
			d.t.Error(err)
			return
		}
		if open = append(open, confirm); len(open) == window {
			for _, confirm := range open {
				confirm.Wait()
			}
			open = open[:0]
		}
	}
	for _, confirm := range open {
		confirm.Wait()
	}
}

// dueCount counts messages by their numbers, and notes how late they are.
type dueCount struct {
	mu    sync.Mutex
	seen  []bool
	all   int
	lates []time.Duration // of each message's first copy
}

// countDue consumes the target's queue until the test ends.
func (d *delayed) countDue(messages int) *dueCount {
	d.t.Helper()
	ch, err := d.conn.Channel()
	d.must(err)
	rings, err := ch.Consume(d.target, "", true, false, false, false, nil)
	d.must(err)
	c := &dueCount{seen: make([]bool, messages)}
	go func() {
		for m := range rings {
			at := time.Now()
			number, _ := strconv.Atoi(m.MessageId)
			due, _ := m.Headers["x-clockd-ring-at"].(int64)
			c.note(number, at.Sub(time.UnixMilli(due)))
		}
	}()
	return c
}

func (c *dueCount) note(number int, late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.all++; !c.seen[number] {
		c.seen[number] = true
		c.lates = append(c.lates, late)
	}
}

func (c *dueCount) distinct() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.lates)
}

func (c *dueCount) copies() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.all - len(c.lates)
}

func (c *dueCount) lateness() []time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.lates))
}

func (c *dueCount) early() int {
	early, _ := slices.BinarySearch(c.lateness(), 0)
	return early
}

var residentKiB = regexp.MustCompile(`VmRSS:\s+(\d+) kB`)

// watchMemory looks at the process's memory until the test ends. peak returns the largest resident size so far, in
// bytes.
func (p *process) watchMemory() (peak func() int) {
	var mu sync.Mutex
	largest := 0
	ticks, done := time.NewTicker(200*time.Millisecond), make(chan struct{})
	p.t.Cleanup(func() { ticks.Stop(); close(done) })
	go func() {
		for {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
			if match := residentKiB.FindSubmatch(status); err == nil && match != nil {
				kib, _ := strconv.Atoi(string(match[1]))
				mu.Lock()
				largest = max(largest, kib<<10)
				mu.Unlock()
			}
			select {
			case <-ticks.C:
			case <-done:
				return
			}
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return largest
	}
}
