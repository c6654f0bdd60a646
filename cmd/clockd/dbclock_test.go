package main

import (
	"database/sql"
	"fmt"
	"testing"
	"time"
)

// serverClock is the clock that the sessions of one PostgreSQL database see. The test may slew it and set it back. The
// server's real clock is this machine's clock.
type serverClock struct {
	t    *testing.T
	db   *sql.DB
	base time.Time // time of the last change, by this machine's clock
	show time.Time // time by the serverClock after that change
	rate float64   // rate, as a multiple of this machine's clock
}

// newServerClock replaces clock_timestamp for all sessions that the database opens from now on.
func newServerClock(t *testing.T, databaseURL string) *serverClock {
	t.Helper()
	db, err := sql.Open("pgx", databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	now := time.Now()
	c := &serverClock{t: t, db: db, base: now, show: now, rate: 1}
	name := parse(t, databaseURL).Path[1:]
	for _, statement := range []string{
		"CREATE TABLE server_clock (base timestamptz NOT NULL, show timestamptz NOT NULL, rate float8 NOT NULL)",
		"INSERT INTO server_clock VALUES (now(), now(), 1)",
		`CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
			AS 'SELECT show + (pg_catalog.clock_timestamp() - base) * rate FROM public.server_clock'`,
		"ALTER DATABASE " + name + " SET search_path = public, pg_catalog",
	} {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
	c.change(0, 1)
	return c
}

// at returns the clock's time when this machine's clock shows local. local must not be before the last change.
func (c *serverClock) at(local time.Time) time.Time {
	return c.show.Add(time.Duration(float64(local.Sub(c.base)) * c.rate))
}

// change moves the clock by a step and sets its rate.
func (c *serverClock) change(step time.Duration, rate float64) {
	c.t.Helper()
	now := time.Now().Truncate(time.Microsecond)
	c.base, c.show, c.rate = now, c.at(now).Add(step).Truncate(time.Microsecond), rate
	if _, err := c.db.Exec("UPDATE server_clock SET base = $1, show = $2, rate = $3", c.base, c.show, c.rate); err != nil {
		c.t.Fatal(err)
	}
}

// requireNoneEarly demands that no ring arrived before its due time by the clock. The clock must not have changed since
// the rings.
func (c *serverClock) requireNoneEarly(rings []receivedRing) {
	c.t.Helper()
	var early int
	var earliest, latest time.Duration
	for _, r := range rings {
		late := c.at(r.arrived).Sub(r.target)
		if late < 0 {
			early++
		}
		earliest, latest = min(earliest, late), max(latest, late)
	}
	c.t.Logf("%d rings, %d of them early, by %s at most; the latest %s late", len(rings), early, -earliest, latest)
	if early > 0 {
		c.t.Errorf("%d of %d rings were early by the database's clock, by %s at most", early, len(rings), -earliest)
	}
}

// The database's clock is slewed by 83,333 ppm, the fastest slew of chrony. No alarm rings early.
func TestNoRingIsEarlyWhileTheDatabaseClockIsSlewed(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	c := newServerClock(t, databaseURL)
	p := startNamed(t, "one", databaseURL, b)
	got := b.receive("shop")
	c.change(0, 1-1.0/12)
	const count = 1000
	begins := c.at(time.Now()).Add(4 * time.Second).Truncate(time.Millisecond)
	p.set("shop", "order", count, func(i int) time.Time { return begins.Add(time.Duration(i) * 7 * time.Millisecond) })
	awaitRung(t, got, count)
	c.requireNoneEarly(got.all())
}

// The database's clock is set back by five minutes while a node dies. The other node takes its shards, and alarms ring
// by the changed clock.
func TestAlarmsRingByADatabaseClockThatWasSetBack(t *testing.T) {
	t.Parallel()
	databaseURL, b := postgres(t), dialBroker(t, amqpURL())
	c := newServerClock(t, databaseURL)
	one, two := startNamed(t, "one", databaseURL, b), startNamed(t, "two", databaseURL, b)
	one.awaitShares("two nodes", 32, 32)
	got := b.receive("shop")
	two.kill()
	c.change(-5*time.Minute, 1)
	one.awaitShares("the dead node's leases last for minutes", 64, 0)
	const count = 300
	for k := range 3 {
		begins := c.at(time.Now()).Add(2 * time.Second).Truncate(time.Millisecond)
		one.set("shop", fmt.Sprintf("order-%d", k), count,
			func(i int) time.Time { return begins.Add(time.Duration(i) * 5 * time.Millisecond) })
	}
	awaitRung(t, got, 3*count)
	c.requireNoneEarly(got.all())
}
