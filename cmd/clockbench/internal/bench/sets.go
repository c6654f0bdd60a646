package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// farAhead returns due times from tomorrow on, spread over an hour. None is due while the bench runs.
func farAhead(now int64) func(n int) int64 {
	const step = 7919 // a prime, so that neighbours are far apart
	from, hour := now+24*time.Hour.Milliseconds(), time.Hour.Milliseconds()
	return func(n int) int64 { return from + int64(n)*step%hour }
}

// bulkStep is one way to write in bulk, with its results in each round.
type bulkStep struct {
	what    string
	ceiling string
	do      func(ctx context.Context, b *testbed, s series, n int, dueAt func(n int) int64) error

	rates, bare, costs samples
}

// bulkWays is the number of ways to send in bulk. So many steps set alarms, and as many cancel them.
const bulkWays = 2

func bulkSteps() []*bulkStep {
	const insert, update = "bare insert of 500", "bare update of 500"
	return []*bulkStep{
		{what: "set, NDJSON", ceiling: insert, do: setLines},
		{what: "set, JSON arrays", ceiling: insert, do: setArrays},
		{what: "cancel, NDJSON", ceiling: update, do: cancelLines},
		{what: "cancel, JSON arrays", ceiling: update, do: cancelArrays},
	}
}

// setTarget is the smallest allowed ratio of sets in bulk to a bare multi-row insert.
const setTarget = 0.6

// sets measures sets and cancels in bulk.
func (r *run) sets(ctx context.Context, b *testbed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	steps, err := r.setRounds(ctx, b, "set", b.db.Bare)
	if err != nil {
		return err
	}
	r.addSets(stageSets, "", steps)
	for _, s := range steps {
		r.add(stageSets, figureOf(s.what+", clockd's processor time each", micros, s.costs))
	}
	return nil
}

// setRounds runs every step and its ceiling in rounds. The names of the series begin with name. bare returns the table
// of the ceilings.
func (r *run) setRounds(
	ctx context.Context, b *testbed, name string, bare func(context.Context) (bareTable, error),
) ([]*bulkStep, error) {
	steps := bulkSteps()
	for round := range r.cfg.Rounds {
		table, err := bare(ctx)
		if err != nil {
			return nil, err
		}
		err = r.setRound(ctx, b, fmt.Sprintf("%s%d", name, round), steps, table)
		if err := errors.Join(err, table.Close()); err != nil {
			return nil, err
		}
	}
	return steps, nil
}

// addSets adds the results of the steps. suffix completes their names. The ceilings of sets are bare inserts. The
// ceilings of cancels are bare updates, and the sets that were sent in the same way.
func (r *run) addSets(stage, suffix string, steps []*bulkStep) {
	var figures []Figure
	for i, s := range steps {
		f := figureOf(s.what+suffix, perSecond, s.rates)
		if bare := f.besideAll(s.ceiling, s.bare); i < bulkWays {
			figures = append(figures, bare.ratioAtLeast(setTarget))
		} else {
			figures = append(figures, bare, f.besideFigure(figures[i-bulkWays]).ratioAtLeast(1))
		}
	}
	r.add(stage, figures...)
}

// setRound runs every step once, and then the ceilings.
func (r *run) setRound(ctx context.Context, b *testbed, name string, steps []*bulkStep, table bareTable) error {
	n, dueAt := max(r.cfg.Sets/r.cfg.Rounds, 1), farAhead(b.now())
	r.progress.say("sets: %s alarms", commas(int64(n)))
	for i, s := range steps {
		// alarms that were set as lines are cancelled in arrays, and vice versa
		keys := series(fmt.Sprintf("%s%c", name, "abba"[i]))
		begun, used := time.Now(), b.child.cpu()
		if err := s.do(ctx, b, keys, n, dueAt); err != nil {
			return fmt.Errorf("%s: %w", s.what, err)
		}
		s.rates = append(s.rates, rate(n, time.Since(begun)))
		s.costs = append(s.costs, each(n, b.child.cpu()-used))
	}
	inserted, cancelled, err := bareSets(ctx, table, series(name), n, dueAt)
	if err != nil {
		return err
	}
	for i, s := range steps {
		s.bare = append(s.bare, rate(n, []time.Duration{inserted, cancelled}[i/bulkWays]))
	}
	return nil
}

// warmUps is the number of alarms that warm up a testbed.
const warmUps = 4000

// warmUp sets some alarms, so that connections, plans and pools are ready before the measurement.
func (r *run) warmUp(ctx context.Context, b *testbed) error {
	n := min(warmUps, r.cfg.Sets)
	if err := setLines(ctx, b, "warm", n, farAhead(b.now())); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	return nil
}

// setLines sets alarms 0..n-1 as lines over bulkWriters streams. If the testbed has several applications, each stream
// is of one of them.
func setLines(ctx context.Context, b *testbed, s series, n int, dueAt func(n int) int64) error {
	return setLinesCounted(ctx, b, s, n, dueAt, new(atomic.Int64))
}

// setLinesCounted is setLines, and counts the sent alarms in sent.
func setLinesCounted(
	ctx context.Context, b *testbed, s series, n int, dueAt func(n int) int64, sent *atomic.Int64,
) error {
	begun := time.Now()
	err := eachShare(ctx, n, func(ctx context.Context, share, from, to int) error {
		return streamLines(ctx, b.child.url, b.application(share), from, to, http.StatusCreated, func(out []byte, i int) []byte {
			sent.Add(1)
			return s.appendSet(out, i, dueAt(i))
		})
	})
	b.perAlarm = time.Since(begun) / time.Duration(n)
	return err
}

// setFollowed is setLines, and prints its progress.
func (r *run) setFollowed(
	ctx context.Context, b *testbed, what string, s series, n int, dueAt func(n int) int64,
) error {
	var sent atomic.Int64
	defer r.progress.follow(what, &sent, n)()
	return setLinesCounted(ctx, b, s, n, dueAt, &sent)
}

func cancelLines(ctx context.Context, b *testbed, s series, n int, _ func(n int) int64) error {
	return eachShare(ctx, n, func(ctx context.Context, share, from, to int) error {
		return streamLines(ctx, b.child.url, b.application(share), from, to, http.StatusOK, func(out []byte, i int) []byte {
			return append(s.appendID(append(out, `{"cancel":"`...), i), `"}`...)
		})
	})
}

// eachShare cuts 0..n-1 into bulkWriters shares, and calls do for all shares concurrently.
func eachShare(ctx context.Context, n int, do func(ctx context.Context, share, from, to int) error) error {
	shares, ctx := errgroup.WithContext(ctx)
	for w := range bulkWriters {
		from, to := n*w/bulkWriters, n*(w+1)/bulkWriters
		if from < to {
			shares.Go(func() error { return do(ctx, w, from, to) })
		}
	}
	return shares.Wait()
}

func setArrays(ctx context.Context, b *testbed, s series, n int, dueAt func(n int) int64) error {
	return eachArray(ctx, b, s, n, func(a *arrays, from, to int) error { return a.set(from, to, dueAt) })
}

func cancelArrays(ctx context.Context, b *testbed, s series, n int, _ func(n int) int64) error {
	return eachArray(ctx, b, s, n, (*arrays).cancel)
}

// eachArray cuts 0..n-1 into batches, and calls do for each batch over bulkWriters connections.
func eachArray(ctx context.Context, b *testbed, s series, n int, do func(a *arrays, from, to int) error) error {
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
	return eachBulk(ctx, n, func(_ context.Context, writer, from, to int) error { return do(conns[writer], from, to) })
}

// bareSets measures the ceilings of sets and cancels: bare inserts, and bare updates by key.
func bareSets(
	ctx context.Context, table bareTable, s series, n int, dueAt func(n int) int64,
) (inserted, cancelled time.Duration, err error) {
	if inserted, err = fill(ctx, table, s, n, dueAt); err != nil {
		return 0, 0, err
	}
	begun := time.Now()
	err = eachBulk(ctx, n, func(ctx context.Context, _, from, to int) error {
		ids := make([]string, 0, to-from)
		for i := from; i < to; i++ {
			ids = append(ids, s.id(i))
		}
		return table.Cancel(ctx, ids, time.Now().UnixMilli())
	})
	if err != nil {
		return 0, 0, fmt.Errorf("bare update: %w", err)
	}
	return inserted, time.Since(begun), nil
}
