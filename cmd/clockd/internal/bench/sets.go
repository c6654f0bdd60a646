package bench

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// farAhead returns times from tomorrow on, spread over an hour: none is due while the bench runs.
func farAhead(now int64) func(n int) int64 {
	const step = 7919 // a prime, so that neighbours are far apart
	from, hour := now+24*time.Hour.Milliseconds(), time.Hour.Milliseconds()
	return func(n int) int64 { return from + int64(n)*step%hour }
}

// bulkStep is one way to write in bulk, with what became of it in each round.
type bulkStep struct {
	what    string
	ceiling string
	do      func(ctx context.Context, b *bed, s series, n int, at func(n int) int64) error

	rates, bare, costs samples
}

func bulkSteps() []*bulkStep {
	const insert, update = "bare insert of 500", "bare update of 500"
	return []*bulkStep{
		{what: "set, NDJSON", ceiling: insert, do: setLines},
		{what: "set, JSON arrays", ceiling: insert, do: setArrays},
		{what: "cancel, NDJSON", ceiling: update, do: cancelLines},
		{what: "cancel, JSON arrays", ceiling: update, do: cancelArrays},
	}
}

// sets measures sets and cancels in bulk.
func (r *run) sets(ctx context.Context, b *bed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	steps := bulkSteps()
	for round := range r.cfg.Rounds {
		if err := r.setRound(ctx, b, round, steps); err != nil {
			return err
		}
	}
	for _, s := range steps {
		r.add(stageSets, figureOf(s.what, perSecond, s.rates).besideAll(s.ceiling, s.bare))
	}
	for _, s := range steps {
		r.add(stageSets, figureOf(s.what+", clockd's processor time each", micros, s.costs))
	}
	return nil
}

// setRound does every step once, and then the ceilings.
func (r *run) setRound(ctx context.Context, b *bed, round int, steps []*bulkStep) error {
	n, at := max(r.cfg.Sets/r.cfg.Rounds, 1), farAhead(b.now())
	r.progress.say("sets, round %d: %s alarms", round+1, commas(int64(n)))
	for i, s := range steps {
		// what is set as lines is cancelled in arrays, and the other way round
		keys := series(fmt.Sprintf("set%d%c", round, "abba"[i]))
		begun, used := time.Now(), b.child.cpu()
		if err := s.do(ctx, b, keys, n, at); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		s.rates = append(s.rates, rate(n, time.Since(begun)))
		s.costs = append(s.costs, each(n, b.child.cpu()-used))
	}
	inserted, cancelled, err := bareSets(ctx, b, n, at)
	if err != nil {
		return err
	}
	for i, s := range steps {
		s.bare = append(s.bare, rate(n, []time.Duration{inserted, cancelled}[i/2]))
	}
	return nil
}

// warmUps is how many alarms warm up.
const warmUps = 4000

// warmUp sets some alarms, so that connections, plans and pools are as they will be.
func (r *run) warmUp(ctx context.Context, b *bed) error {
	n := min(warmUps, r.cfg.Sets)
	if err := setLines(ctx, b, "warm", n, farAhead(b.now())); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

// setLines sets alarms 0..n-1 over bulkWriters streams.
func setLines(ctx context.Context, b *bed, s series, n int, at func(n int) int64) error {
	return setLinesCounted(ctx, b, s, n, at, new(atomic.Int64))
}

// setLinesCounted counts what is sent.
func setLinesCounted(ctx context.Context, b *bed, s series, n int, at func(n int) int64, sent *atomic.Int64) error {
	return eachShare(ctx, n, func(ctx context.Context, from, to int) error {
		return streamLines(ctx, b.child.url, from, to, http.StatusCreated, func(out []byte, i int) []byte {
			sent.Add(1)
			return s.appendSet(out, i, at(i))
		})
	})
}

func cancelLines(ctx context.Context, b *bed, s series, n int, _ func(n int) int64) error {
	return eachShare(ctx, n, func(ctx context.Context, from, to int) error {
		return streamLines(ctx, b.child.url, from, to, http.StatusOK, func(out []byte, i int) []byte {
			return append(s.appendID(append(out, `{"cancel":"`...), i), `"}`...)
		})
	})
}

// eachShare cuts 0..n-1 into bulkWriters shares that are done at once.
func eachShare(ctx context.Context, n int, do func(ctx context.Context, from, to int) error) error {
	shares, ctx := errgroup.WithContext(ctx)
	for w := range bulkWriters {
		from, to := n*w/bulkWriters, n*(w+1)/bulkWriters
		if from < to {
			shares.Go(func() error { return do(ctx, from, to) })
		}
	}
	return shares.Wait()
}

func setArrays(ctx context.Context, b *bed, s series, n int, at func(n int) int64) error {
	return eachArray(ctx, b, s, n, func(a *arrays, from, to int) error { return a.set(from, to, at) })
}

func cancelArrays(ctx context.Context, b *bed, s series, n int, _ func(n int) int64) error {
	return eachArray(ctx, b, s, n, (*arrays).cancel)
}

// eachArray cuts 0..n-1 into batches over bulkWriters connections.
func eachArray(ctx context.Context, b *bed, s series, n int, do func(a *arrays, from, to int) error) error {
	var conns []*arrays
	defer func() {
		for _, c := range conns {
			c.close()
		}
	}()
	for range bulkWriters {
		c, err := dialHTTP(ctx, b.child.url)
		if err != nil {
			return err
		}
		conns = append(conns, &arrays{httpConn: c, series: s})
	}
	return bulk(ctx, n, func(_ context.Context, writer, from, to int) error { return do(conns[writer], from, to) })
}

// bareSets measures the ceilings: inserts, and updates by key.
func bareSets(ctx context.Context, b *bed, n int, at func(n int) int64) (inserted, cancelled time.Duration, err error) {
	table, err := b.db.Bare(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = table.Close() }()
	const s = series("bare")
	if inserted, err = fill(ctx, table, s, n, at); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	err = bulk(ctx, n, func(ctx context.Context, _, from, to int) error {
		ids := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			ids = append(ids, s.id(i))
		}
		return table.Cancel(ctx, ids)
	})
	if err != nil {
		return 0, 0, fmt.Errorf("bare update: %w", err)
	}
	return inserted, time.Since(begun), nil
}
