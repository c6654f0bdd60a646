package main

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/store"
)

const (
	// overduePage is how many overdue alarms of each shard are looked at.
	overduePage = 100
	// overdueAge is how old the view of overdue alarms may be. Requests within this time share one read.
	overdueAge = time.Second
	// countedAlarms is how many alarms of an application are counted by state.
	countedAlarms = 1000
)

// directory reads the known applications for GET /v1/applications.
type directory struct {
	store    store.Store
	settings *settingsView
	blockers *blockers
	timebase *clock.Timebase
	latest   atomic.Pointer[overdueView] // last view of overdue alarms; nil before the first
	reads    singleflight.Group          // reads of overdue alarms
}

func newDirectory(st store.Store, tb *clock.Timebase, settings *settingsView, why *blockers) *directory {
	return &directory{store: st, settings: settings, blockers: why, timebase: tb}
}

// view returns a page of the applications that have alarms or settings.
func (d *directory) view(ctx context.Context, q clockhttp.ApplicationsQuery) (v clockhttp.ApplicationsView, err error) {
	if v.DatabaseTime, err = d.timebase.AtLeast(); err != nil {
		return v, err
	}
	overdue, err := d.overdue(ctx, v.DatabaseTime)
	if err != nil {
		return v, err
	}
	v.OverdueUntil = overdue.until
	names, err := d.names(ctx, q)
	if err != nil {
		return v, err
	}
	if v.More = len(names) > q.Limit; v.More {
		names = names[:q.Limit]
	}
	seen, err := d.store.Sightings(ctx, names)
	if err != nil {
		return v, err
	}
	for _, name := range names {
		a := d.application(name, overdue)
		if at, known := seen[name]; known {
			a.LastSeen = at
		}
		if q.Counts || q.Attention {
			if a.Counts, a.Counted, err = d.count(ctx, name, q.Counts); err != nil {
				return v, err
			}
		}
		v.Applications = append(v.Applications, a)
	}
	return v, nil
}

// count counts the first alarms of an application, and its expired, dead and paused alarms wherever they are. Without
// all it counts these alone.
func (d *directory) count(
	ctx context.Context, name string, all bool,
) (counts clock.StateCounts, counted clockhttp.Counted, err error) {
	if all {
		if counts, err = d.store.CountStates(ctx, name, countedAlarms+1); err != nil {
			return nil, counted, err
		}
		if counts.Total() <= countedAlarms {
			return counts, clockhttp.Counted{All: true, Attention: true}, nil
		}
	}
	waiting, err := d.store.CountAttention(ctx, name, countedAlarms+1)
	if err != nil {
		return nil, counted, err
	}
	counted = clockhttp.Counted{Attention: true, Only: !all}
	for _, n := range waiting {
		counted.Attention = counted.Attention && n <= countedAlarms
	}
	for state, n := range counts {
		if !state.Attention() {
			waiting[state] = n
		}
	}
	return waiting, counted, nil
}

// names returns covered names after q.After, in order: one more than a page, at most.
func (d *directory) names(ctx context.Context, q clockhttp.ApplicationsQuery) (covered []string, err error) {
	source := d.known
	if q.Attention {
		source = d.store.AttentionApplications
	}
	if q.Only != "" {
		names, err := source(ctx, nameBefore(q.Only), 1)
		return slices.DeleteFunc(names, func(name string) bool { return name != q.Only || name <= q.After }), err
	}
	const leastPage = 100
	limit := q.Limit + 1
	page := max(limit, leastPage)
	for after := q.After; ; {
		names, err := source(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if q.Covers(name) {
				covered = append(covered, name)
			}
		}
		if len(names) < page || len(covered) >= limit {
			return covered[:min(len(covered), limit)], nil
		}
		after = names[len(names)-1]
	}
}

// nameBefore returns a text before the name of an application, with no name between them.
func nameBefore(name string) string {
	last := len(name) - 1
	return name[:last] + string(name[last]-1) + "~" // each byte of a name is less than ~
}

// known returns at most limit names of applications after the given one, in order: with alarms, or with settings that
// this node knows.
func (d *directory) known(ctx context.Context, after string, limit int) ([]string, error) {
	names, err := d.store.Applications(ctx, after, limit)
	if err != nil {
		return nil, err
	}
	for _, s := range d.settings.watch.Snapshot().All() {
		if s.Stored.Application > after {
			names = append(names, s.Stored.Application)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	return names[:min(len(names), limit)], nil
}

// application returns what this node knows of an application without a read.
func (d *directory) application(name string, overdue *overdueView) clockhttp.ApplicationView {
	applied := d.settings.Applied(name)
	v := clockhttp.ApplicationView{Name: name, Version: applied.Version, Target: applied.Target,
		OldestOverdue: clock.NoInstant, LastSeen: clock.NoInstant, Blockers: d.blockers.ofApplication(name)}
	if s := d.settings.watch.Settings(name); s != nil {
		v.Paused = s.Paused
	}
	if oldest, has := overdue.oldest[name]; has {
		v.OldestOverdue = oldest
	}
	return v
}

// overdueView has the earliest due times of overdue alarms.
type overdueView struct {
	at     clock.Instant            // time of the view
	until  clock.Instant            // end of the due times that it covers
	oldest map[string]clock.Instant // earliest due time by application
}

// overdue returns a view that is at most overdueAge old.
func (d *directory) overdue(ctx context.Context, now clock.Instant) (*overdueView, error) {
	if v := d.latest.Load(); v != nil && now < v.at.Add(overdueAge) {
		return v, nil
	}
	read, err, _ := d.reads.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), clock.RequestTimeout) // other requests share the read
		defer cancel()
		v, err := d.readOverdue(ctx, now)
		if err == nil {
			d.latest.Store(v)
		}
		return v, err
	})
	if err != nil {
		return nil, err
	}
	v, _ := read.(*overdueView)
	return v, nil
}

// readOverdue reads the beginning of the due index of each shard.
func (d *directory) readOverdue(ctx context.Context, now clock.Instant) (*overdueView, error) {
	page, err := d.store.Due(ctx,
		store.DueQuery{Shards: store.AllShards(d.store.ShardCount()), Until: store.Position{Time: now},
			Limit: overduePage})
	if err != nil {
		return nil, err
	}
	v := &overdueView{at: now, until: page.CompleteUntil.Time, oldest: map[string]clock.Instant{}}
	for _, due := range page.Rows { // in due order
		if _, known := v.oldest[due.Application]; !known {
			v.oldest[due.Application] = due.NextTryTime
		}
	}
	return v, nil
}
