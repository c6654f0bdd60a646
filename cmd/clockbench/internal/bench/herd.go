package bench

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// lostAfter is the length of a silence after which missing rings count as lost. The service itself finds missed alarms
// within some seconds.
const lostAfter = 30 * time.Second

// herdRounds holds the results of the rounds, and of their ceilings.
type herdRounds struct {
	rates, first           samples
	costs, clients         samples // processor time for each ring: of the service; of service and consumer together
	loop, plain, published samples // ceilings; plain has no headers, and without a broker no messages
	bareClients            samples // processor time for each ring: of the bare loop and consumer together; without a broker of the plain loop
}

// The smallest allowed ratio of a herd to the bare loop: with the same messages, and with claims alone.
const (
	herdTarget   = 0.9
	streamTarget = 0.35
)

// herd measures how fast alarms ring that are all due at one instant.
func (r *run) herd(ctx context.Context, b *testbed) error { return r.herds(ctx, b, stageHerd, "herd") }

// stream measures a herd over the stream. It runs if the configuration has a broker, because otherwise herd already
// measures the stream.
func (r *run) stream(ctx context.Context, b *testbed) error {
	return r.herds(ctx, b, stageStream, "herd over the stream")
}

// herds measures herds and their ceilings in turn.
func (r *run) herds(ctx context.Context, b *testbed, stage, what string) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	var rounds herdRounds
	for round := range r.cfg.Rounds {
		r.progress.say("%s, round %d", what, round+1)
		h, err := r.ringHerd(ctx, b, stage, fmt.Sprintf("herd%d", round), r.cfg.Herd, nil)
		if err != nil {
			return err
		}
		rounds.add(&h)
		if err := r.herdCeilings(ctx, b, round, &rounds); err != nil {
			return err
		}
	}
	r.addHerd(b, stage, what, &rounds)
	return nil
}

// herd is the result of alarms that were all due at one instant.
type herd struct {
	rings             Rings
	took, first       time.Duration // time from the due instant to the last ring, and to the first ring
	service, consumer time.Duration // processor time from the last set to the last ring
	servers           time.Duration // the same of clockd, database and broker together, if they run here; 0 if unknown
}

func (h *herd) rate() float64 { return rate(h.rings.Rung, h.took) }

func (rounds *herdRounds) add(h *herd) {
	n := h.rings.Expected
	rounds.rates = append(rounds.rates, h.rate())
	rounds.first = append(rounds.first, ms(h.first))
	rounds.costs = append(rounds.costs, each(n, h.service))
	rounds.clients = append(rounds.clients, each(n, h.service+h.consumer))
}

// ringHerd sets n alarms under a new series name and waits for their rings. If the alarms were due before all were set,
// it sets another series, further ahead. It calls disturb once a tenth of the herd has rung, if all alarms were set
// before they were due; nil: nothing disturbs.
func (r *run) ringHerd(
	ctx context.Context, b *testbed, stage, name string, n int, disturb func() error,
) (h herd, err error) {
	err = r.inTime(b, n, func(try int, ahead time.Duration) error {
		due := b.now() + ahead.Milliseconds()
		t := newTally(series(fmt.Sprintf("%s%d", name, try)), n, func(int) int64 { return due }, b.offset)
		h, err = r.ringTally(ctx, b, t, due, disturb)
		return err
	})
	if err == nil {
		r.addRings(b, stage, h.rings)
	}
	return h, err
}

// whenRung calls do as soon as n alarms of the tally have rung. stop gives up waiting for them, waits for do, and
// returns its error.
func whenRung(ctx context.Context, t *tally, n int, do func() error) (stop func() error) {
	if do == nil {
		return func() error { return nil }
	}
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		err := t.waitRung(waiting, n)
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return func() error {
		cancel()
		return <-done
	}
}

// ringTally sets the tally's alarms, all due at once, and takes their rings. If they were due before the last was set,
// it waits for all rings and returns errSlow.
func (r *run) ringTally(
	ctx context.Context, b *testbed, t *tally, due int64, disturb func() error,
) (h herd, err error) {
	c, err := b.consume(ctx, t)
	if err != nil {
		return h, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	n := len(t.first)
	if err := r.setFollowed(ctx, b, "herd", t.series, n, t.ringAt); err != nil {
		return h, err
	}
	left := -b.since(due, time.Now())
	r.progress.say("herd: %s alarms are set, due in %s", commas(int64(n)), left.Round(time.Millisecond))
	service, consumer, servers := b.child.cpu(), ownTime(), b.serversTime()
	if left > 0 {
		stop := whenRung(ctx, t, max(n/10, 1), disturb)
		defer func() { err = errors.Join(err, stop()) }()
	}
	if h.rings, err = t.wait(ctx, time.Now().Add(max(left, 0)), lostAfter); err != nil {
		return h, err
	}
	if left <= 0 {
		return h, errSlow
	}
	h.took, h.first = b.since(due, t.lastRing()), t.firstLateness()
	h.service, h.consumer, h.servers = b.child.cpu()-service, ownTime()-consumer, b.serversTime()-servers
	return h, nil
}

// herdCeilings measures how fast bare code rings a herd of this size. The two loops swap their order in each round,
// because the first loop may run while the database still cleans up after the herd.
func (r *run) herdCeilings(ctx context.Context, b *testbed, round int, rounds *herdRounds) error {
	if b.broker == nil {
		return r.bareRound(ctx, b, false, rounds)
	}
	first := round%2 == 0
	for _, headers := range []bool{first, !first} {
		if err := r.bareRound(ctx, b, headers, rounds); err != nil {
			return err
		}
	}
	published, err := r.barePublish(ctx, b)
	rounds.published = append(rounds.published, published)
	return err
}

// bareRound rings a herd with the bare loop.
func (r *run) bareRound(ctx context.Context, b *testbed, headers bool, rounds *herdRounds) error {
	perSecond, cost, err := r.bareHerd(ctx, b, headers)
	if err != nil {
		return err
	}
	if headers {
		rounds.loop = append(rounds.loop, perSecond)
	} else {
		rounds.plain = append(rounds.plain, perSecond)
	}
	if headers || b.broker == nil {
		rounds.bareClients = append(rounds.bareClients, cost)
	}
	return nil
}

// addHerd adds the figures with their ceilings: the bare loop with clockd's messages, the bare loop with minimal
// messages, and publishing alone. On the stream the ceiling is a bare loop without a broker.
func (r *run) addHerd(b *testbed, stage, what string, rounds *herdRounds) {
	figure := figureOf(what+", "+commas(int64(r.cfg.Herd))+" due at once", perSecond, rounds.rates)
	if b.broker == nil {
		r.add(stage, figure.besideAll("bare claim and commit", rounds.plain).ratioAtLeast(streamTarget))
	} else {
		r.add(stage,
			figure.besideAll("bare loop, same messages", rounds.loop).ratioAtLeast(herdTarget),
			figure.besideAll("bare loop, no headers", rounds.plain),
			figure.besideAll("bare publish, not consumed", rounds.published),
		)
	}
	r.addHerdCosts(b, stage, what, rounds, "bare loop")
}

// addHerdCosts adds what a herd costs. bare names the ceiling of the processor time, if there is one.
func (r *run) addHerdCosts(b *testbed, stage, what string, rounds *herdRounds, bare string) {
	clients := figureOf(what+", the same with the consumer's", micros, rounds.clients)
	if len(rounds.bareClients) > 0 {
		clients = clients.besideAll(bare, rounds.bareClients)
	}
	r.add(stage,
		figureOf(what+", first ring after", millis, rounds.first),
		figureOf(what+", clockd's processor time each", micros, rounds.costs),
		clients,
		Figure{What: "peak RSS after the " + what, Unit: mebibytes, Value: mib(b.child.peakRSS())},
	)
}

// bareHerd rings a herd with the bare loop, while the messages are consumed. It returns the rings per second, and the
// processor time of each ring in microseconds.
func (r *run) bareHerd(ctx context.Context, b *testbed, headers bool) (perSecond, cost float64, err error) {
	n := r.cfg.Herd
	r.progress.say("bare loop: %s alarms", commas(int64(n)))
	table, err := b.db.Bare(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = table.Close() }()
	due := time.Now().UnixMilli()
	t := newTally("bare", n, func(int) int64 { return due }, clockOffset{})
	ids, ringer, c, err := bareTestbed(ctx, b, table, t, headers)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	defer ringer.close()
	begun, own := time.Now(), ownTime()
	if err := ringer.herd(ctx, ids); err != nil {
		return 0, 0, err
	}
	if b.broker == nil {
		return rate(n, time.Since(begun)), each(n, ownTime()-own), nil
	}
	if rings, err := t.wait(ctx, time.Now(), lostAfter); err != nil || rings.Lost > 0 {
		return 0, 0, errors.Join(err, fmt.Errorf("bare loop: %d messages were lost", rings.Lost))
	}
	return rate(n, t.lastRing().Sub(begun)), each(n, ownTime()-own), nil
}

// bareTestbed fills the table with the tally's alarms. It makes the ringer that rings them and the consumer that takes
// the rings.
func bareTestbed(
	ctx context.Context, b *testbed, table bareTable, t *tally, headers bool,
) (ids []int64, ringer *bareRinger, c *consumer, err error) {
	if _, err = fill(ctx, table, t.series, len(t.first), t.ringAt); err != nil {
		return nil, nil, nil, err
	}
	if ids, err = table.IDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	key, c := "", &consumer{stop: func() {}}
	if b.broker != nil {
		var queue string
		if queue, key, err = b.broker.ceilingQueue(); err != nil {
			return nil, nil, nil, err
		}
		if c, err = b.broker.consume(ctx, queue, t); err != nil {
			return nil, nil, nil, err
		}
	}
	if ringer, err = newBareRinger(ctx, table, b.broker, key, headers); err != nil {
		return nil, nil, nil, errors.Join(err, c.close())
	}
	return ids, ringer, c, nil
}

// barePublish publishes as many messages as the herd has, confirmed but not consumed. It returns the messages per
// second.
func (r *run) barePublish(ctx context.Context, b *testbed) (perSecond float64, err error) {
	n := r.cfg.Herd
	r.progress.say("bare publish: %s messages", commas(int64(n)))
	_, key, err := b.broker.ceilingQueue()
	if err != nil {
		return 0, err
	}
	ringer, err := newBareRinger(ctx, &noTable{series: "bare"}, b.broker, key, true)
	if err != nil {
		return 0, err
	}
	defer ringer.close()
	begun := time.Now()
	if err := ringer.herd(ctx, numbers(n)); err != nil {
		return 0, err
	}
	return rate(n, time.Since(begun)), nil
}

// noTable is a bareTable without a database, so that publishing alone is measured.
type noTable struct {
	bareTable
	series series
}

// Claim calls do with generated rings.
func (t *noTable) Claim(_ context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error) error {
	rings := make([]bareRing, len(ids))
	for i, id := range ids {
		rings[i] = bareRing{
			id: id, businessID: t.series.id(int(id)), payload: t.series.appendPayload(nil, int(id)), ringAt: now,
			generation: 1, ringNo: 1,
			rungAt: now, claimID: claimID,
		}
	}
	return do(rings)
}
