package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// receiver is a service of the bench to which clockd sends rings.
type receiver interface {
	// Settings returns the flags of `clockd application set` for the application that rings there.
	Settings() []string
	// Environment returns the further environment of the nodes.
	Environment() []string
	// Consume takes rings into the tally until the consumer is closed.
	Consume(ctx context.Context, base string, t *tally) (*consumer, error)
	// Close removes what the receiver has made.
	Close() error
}

// server is a receiver that takes rings from other senders, too.
type server interface {
	receiver
	// Sender returns the ceiling: it sends the rings of the table as clockd does, and as many at once.
	Sender(ctx context.Context, table bareTable) (*bareRinger, error)
	// ReplyAfter makes it reply that time after it has a ring. A server that replies for itself does nothing, and
	// returns false.
	ReplyAfter(d time.Duration) bool
}

// receiverConcurrency is the number of rings that are under way at once to a receiver of webhooks or of gRPC: the
// default of clockd's settings.
const receiverConcurrency = 16

// busyTarget is the smallest allowed ratio of a herd to a client that only sends, at a server that replies after
// busyReply.
const (
	busyTarget = 0.8
	busyReply  = 5 * time.Millisecond
)

// onServer returns a stage that measures the rings that go to a server: a herd, and the lateness at a constant rate.
func (r *run) onServer(stage string, open func(context.Context, *Config) (server, error)) func(context.Context) error {
	return func(ctx context.Context) error {
		to, err := open(ctx, &r.cfg)
		if err != nil {
			return err
		}
		measure := func(ctx context.Context, b *testbed) error { return r.receive(ctx, b, to, stage) }
		return inTestbedOf(func(ctx context.Context) (*testbed, error) { return r.makeReceiverTestbed(ctx, to) },
			measure)(ctx)
	}
}

// makeReceiverTestbed makes a testbed whose rings go to the receiver. The testbed closes the receiver.
func (r *run) makeReceiverTestbed(ctx context.Context, to receiver) (*testbed, error) {
	return r.makeTestbedOf(ctx, &testbed{cfg: &r.cfg, receiver: to}, "")
}

// bareSender names the ceiling of a server's stage.
const bareSender = "bare sender"

// receive measures herds by turns with the bare sender, and then the lateness of both.
func (r *run) receive(ctx context.Context, b *testbed, to server, stage string) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	what := stage + " herd"
	prompt, err := r.receiveHerds(ctx, b, to, stage, "herd", r.cfg.Herd)
	if err != nil {
		return err
	}
	r.add(stage, prompt.figure(what, r.cfg.Herd))
	r.addHerdCosts(b, stage, what, prompt, bareSender)
	if to.ReplyAfter(busyReply) {
		n := max(r.cfg.Herd/busyPart, 1)
		busy, err := r.receiveHerds(ctx, b, to, stage, "busy", n)
		if err != nil {
			return err
		}
		r.add(stage, busy.figure(fmt.Sprintf("%s, replies after %s", what, busyReply), n).ratioAtLeast(busyTarget))
		to.ReplyAfter(0)
	}
	late, err := r.ringSteadily(ctx, b, &steady{stage: stage, name: "late", rate: r.cfg.Rate})
	if err != nil {
		return err
	}
	bare, err := r.sendSteadily(ctx, b, to)
	if err != nil {
		return err
	}
	r.add(stage, latenessFigures(fmt.Sprintf("%s lateness at %d/s", stage, r.cfg.Rate), late, bareSender, bare)...)
	return nil
}

// busyPart is the part of a herd that a server gets that replies after busyReply.
const busyPart = 10

// receiveHerds measures herds of n by turns with the bare sender.
func (r *run) receiveHerds(
	ctx context.Context, b *testbed, to server, stage, name string, n int,
) (*herdRounds, error) {
	rounds := &herdRounds{}
	for round := range r.cfg.Rounds {
		r.progress.say("%s, round %d", stage, round+1)
		h, err := r.ringHerd(ctx, b, stage, fmt.Sprint(name, round), n, nil)
		if err != nil {
			return nil, err
		}
		rounds.add(&h)
		sent, cost, err := r.sendHerd(ctx, b, to, n)
		if err != nil {
			return nil, err
		}
		rounds.published, rounds.bareClients = append(rounds.published, sent), append(rounds.bareClients, cost)
	}
	return rounds, nil
}

// figure returns the rate of herds of n, beside the bare sender.
func (rounds *herdRounds) figure(what string, n int) Figure {
	return figureOf(what+", "+commas(int64(n))+" due at once", perSecond, rounds.rates).
		besideAll(bareSender, rounds.published)
}

// sendHerd sends n rings as fast as the bare sender can. It returns the rings per second, and the processor time of
// each ring in microseconds, with the receiver's.
func (r *run) sendHerd(ctx context.Context, b *testbed, to server, n int) (perSecond, cost float64, err error) {
	r.progress.say("bare sender: %s rings", commas(int64(n)))
	due := time.Now().UnixMilli()
	t := newTally("bare", n, func(int) int64 { return due }, clockOffset{})
	begun, own := time.Now(), ownTime()
	err = sendBare(ctx, b, to, t, func(ringer *bareRinger, ids []int64) error { return ringer.herd(ctx, ids) })
	if err != nil {
		return 0, 0, err
	}
	return rate(n, t.lastRing().Sub(begun)), each(n, ownTime()-own), nil
}

// sendSteadily sends rings at the constant rate of the lateness, and returns their lateness.
func (r *run) sendSteadily(ctx context.Context, b *testbed, to server) (spread, error) {
	took := min(r.cfg.For, bareFor)
	r.progress.say("bare sender: %d rings a second for %s", r.cfg.Rate, took)
	t := newTally("bare", int(float64(r.cfg.Rate)*took.Seconds()),
		evenly(time.Now().Add(latenessLead).UnixMilli(), r.cfg.Rate), clockOffset{})
	err := sendBare(ctx, b, to, t, func(ringer *bareRinger, ids []int64) error {
		_, err := ringer.steadily(ctx, ids, t.ringAt)
		return err
	})
	return t.lateness(), err
}

// sendBare sends the rings of the tally with the bare sender, and waits until all have come.
func sendBare(
	ctx context.Context, b *testbed, to server, t *tally, send func(ringer *bareRinger, ids []int64) error,
) (err error) {
	c, err := b.consume(ctx, t)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	ringer, err := to.Sender(ctx, &noTable{series: t.series})
	if err != nil {
		return err
	}
	defer ringer.close()
	if err := send(ringer, numbers(len(t.first))); err != nil {
		return err
	}
	rings, err := t.wait(ctx, time.Now(), lostAfter)
	if err == nil && rings.Lost > 0 {
		err = fmt.Errorf("bare sender: %d rings were lost", rings.Lost)
	}
	return err
}

// numbers returns 0..n-1.
func numbers(n int) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

// tallyHolder holds the tally into which a server takes rings. It is safe for concurrent use.
type tallyHolder struct {
	now   atomic.Pointer[tally]
	reply atomic.Int64 // time after which the server replies
}

// take counts a ring, if there is a tally. It returns when the server may reply.
func (h *tallyHolder) take(r *ring) {
	if t := h.now.Load(); t != nil {
		t.take(r)
	}
	if d := time.Duration(h.reply.Load()); d > 0 {
		time.Sleep(d)
	}
}

// ReplyAfter sets the time after which the server replies.
func (h *tallyHolder) ReplyAfter(d time.Duration) bool {
	h.reply.Store(int64(d))
	return true
}

// consume makes the tally the one into which rings are taken, until the consumer is closed.
func (h *tallyHolder) consume(t *tally) *consumer {
	h.now.Store(t)
	return &consumer{stop: func() { h.now.Store(nil) }}
}
