package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// patience is how long silence means that a ring is lost. The service finds what it missed within some seconds.
	patience = 30 * time.Second
	// herdTries is how often a herd is set again, further ahead, that was due before all of it was set.
	herdTries = 4
)

// herdRounds are the results of the rounds.
type herdRounds struct {
	rates, first           samples
	costs, clients         samples // processor time a ring: of the service, and of service and consumer
	loop, plain, published samples // ceilings; plain without headers, and without messages where there is no broker
	bareClients            samples // processor time a ring: of the bare loop (plain where there is no broker) and consumer
}

// herd measures how fast alarms ring that are due at one instant.
func (r *run) herd(ctx context.Context, b *bed) error {
	begun := time.Now()
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	perAlarm := time.Since(begun) / time.Duration(min(warmUps, r.cfg.Sets))
	lead := r.cfg.ahead + 2*time.Duration(r.cfg.Herd)*perAlarm
	var rounds herdRounds
	for round := range r.cfg.Rounds {
		r.progress.say("herd, round %d", round+1)
		if err := r.herdRound(ctx, b, round, lead, &rounds); err != nil {
			return err
		}
		if err := r.herdCeilings(ctx, b, round, &rounds); err != nil {
			return err
		}
	}
	r.addHerd(b, &rounds)
	return nil
}

// herdRound rings a herd; one that was due before all of it was set is set again, further ahead.
func (r *run) herdRound(ctx context.Context, b *bed, round int, lead time.Duration, rounds *herdRounds) error {
	for try := range herdTries {
		due := b.now() + lead.Milliseconds()
		t := newTally(series(fmt.Sprintf("herd%d%d", round, try)), r.cfg.Herd, func(int) int64 { return due }, b.offset)
		used, inTime, err := r.ringHerd(ctx, b, t, due)
		if err != nil {
			return err
		}
		if !inTime {
			lead *= 2
			r.progress.say("the herd was due before it was set; again, %s ahead", lead.Round(time.Second))
			continue
		}
		rounds.rates = append(rounds.rates, rate(t.sum().Rung, b.since(due, t.lastRing())))
		rounds.first = append(rounds.first, ms(t.firstLateness()))
		rounds.costs = append(rounds.costs, each(r.cfg.Herd, used.service))
		rounds.clients = append(rounds.clients, each(r.cfg.Herd, used.service+used.consumer))
		return nil
	}
	return errors.New("alarms cannot be set fast enough for a herd")
}

// herdCost is the processor time that a herd's rings took, from when it was set.
type herdCost struct{ service, consumer time.Duration }

// ringHerd sets the herd and waits for its rings. It returns what they cost, and whether all was set when the herd was due.
func (r *run) ringHerd(ctx context.Context, b *bed, t *tally, due int64) (used herdCost, inTime bool, err error) {
	c, err := b.consume(ctx, t)
	if err != nil {
		return used, false, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	n := r.cfg.Herd
	var sent atomic.Int64
	stop := r.progress.follow("herd", &sent, n)
	err = setLinesCounted(ctx, b, t.series, n, t.ringAt, &sent)
	stop()
	if err != nil {
		return used, false, err
	}
	left := -b.since(due, time.Now())
	inTime = left > 0
	r.progress.say("herd: %s alarms are set, due in %s", commas(int64(n)), left.Round(time.Millisecond))
	service, consumer := b.child.cpu(), ownTime()
	rings, err := t.wait(ctx, time.Now().Add(max(left, 0)), patience)
	if err != nil {
		return used, false, err
	}
	used = herdCost{service: b.child.cpu() - service, consumer: ownTime() - consumer}
	if inTime {
		r.addRings(b, stageHerd, rings)
	}
	return used, inTime, nil
}

// herdCeilings measures what bare code can do with a herd as large. The two loops change places from round to round: what
// comes first runs while the database still clears up after the herd, or before it begins to.
func (r *run) herdCeilings(ctx context.Context, b *bed, round int, rounds *herdRounds) error {
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
func (r *run) bareRound(ctx context.Context, b *bed, headers bool, rounds *herdRounds) error {
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

// herdTarget is issue 2's.
const herdTarget = 0.6

// addHerd adds the figures: beside the bare loop with the messages that clockd promises, with the least of a message, and
// beside publishing alone; on the stream beside what a program without a broker could do.
func (r *run) addHerd(b *bed, rounds *herdRounds) {
	figure := figureOf("herd, "+commas(int64(r.cfg.Herd))+" due at once", perSecond, rounds.rates)
	if b.broker == nil {
		r.add(stageHerd, figure.besideAll("bare claim and commit", rounds.plain))
	} else {
		r.add(stageHerd,
			figure.besideAll("bare loop, same messages", rounds.loop).ratioAtLeast(herdTarget),
			figure.besideAll("bare loop, no headers", rounds.plain),
			figure.besideAll("bare publish, not consumed", rounds.published),
		)
	}
	r.add(stageHerd,
		figureOf("herd, first ring after", millis, rounds.first),
		figureOf("herd, clockd's processor time each", micros, rounds.costs),
		figureOf("herd, the same with the consumer's", micros, rounds.clients).besideAll("bare loop", rounds.bareClients),
		Figure{What: "peak RSS after the herd", Unit: mebibytes, Value: mib(b.child.peakRSS())},
	)
}

// bareHerd rings a herd with the bare loop, consumed at the same time, and returns how many a second, and the
// processor time of each in microseconds.
func (r *run) bareHerd(ctx context.Context, b *bed, headers bool) (perSecond, cost float64, err error) {
	n := r.cfg.Herd
	r.progress.say("bare loop: %s alarms", commas(int64(n)))
	table, err := b.db.Bare(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = table.Close() }()
	due := time.Now().UnixMilli()
	t := newTally("bare", n, func(int) int64 { return due }, clockOffset{})
	ids, ringer, c, err := bareBed(ctx, b, table, t, headers)
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
	if rings, err := t.wait(ctx, time.Now(), patience); err != nil || rings.Lost > 0 {
		return 0, 0, errors.Join(err, fmt.Errorf("bare loop: %d messages were lost", rings.Lost))
	}
	return rate(n, t.lastRing().Sub(begun)), each(n, ownTime()-own), nil
}

// bareBed fills the table with the tally's alarms and makes what rings and takes them.
func bareBed(ctx context.Context, b *bed, table bareTable, t *tally, headers bool) (ids []int64, ringer *bareRinger, c *consumer, err error) {
	if _, err = fill(ctx, table, t.series, len(t.first), t.ringAt); err != nil {
		return nil, nil, nil, err
	}
	if ids, err = table.IDs(ctx); err != nil {
		return nil, nil, nil, err
	}
	key, c := "", &consumer{stop: func() {}}
	if b.broker != nil {
		var queue string
		if queue, key, err = b.broker.lane(); err != nil {
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

// barePublish publishes as many messages as the herd has, confirmed and not consumed, and returns how many a second.
func (r *run) barePublish(ctx context.Context, b *bed) (perSecond float64, err error) {
	n := r.cfg.Herd
	r.progress.say("bare publish: %s messages", commas(int64(n)))
	_, key, err := b.broker.lane()
	if err != nil {
		return 0, err
	}
	ringer, err := newBareRinger(ctx, &noTable{series: "bare"}, b.broker, key, true)
	if err != nil {
		return 0, err
	}
	defer ringer.close()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = int64(i)
	}
	begun := time.Now()
	if err := ringer.herd(ctx, ids); err != nil {
		return 0, err
	}
	return rate(n, time.Since(begun)), nil
}

// noTable is a bareTable that costs nothing: publishing alone is measured.
type noTable struct {
	bareTable
	series series
}

// Claim makes up the rings.
func (t *noTable) Claim(_ context.Context, ids []int64, now int64, claimID string, do func([]bareRing) error) error {
	rings := make([]bareRing, len(ids))
	for i, id := range ids {
		rings[i] = bareRing{
			id: id, businessID: t.series.id(int(id)), payload: t.series.appendPayload(nil, int(id)), ringAt: now, generation: 1, ringNo: 1,
			rungAt: now, claimID: claimID,
		}
	}
	return do(rings)
}
