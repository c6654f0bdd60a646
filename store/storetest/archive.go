package storetest

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store/engine"
)

// archived is the part of a store that exports and imports.
type archived interface {
	IsEmpty(ctx context.Context) (bool, error)
	Archive(ctx context.Context, after int64, settings func([]settings.Version) error, page func([]engine.ArchivedAlarm) error) error
	Restore(ctx context.Context, alarms []engine.ArchivedAlarm) ([]engine.Restored, error)
}

func (f *fixture) archived() archived {
	f.t.Helper()
	s, is := f.Store.(archived)
	if !is {
		f.t.Fatalf("%T cannot be exported", f.Store)
	}
	return s
}

// archive returns all alarms with ids above after.
func (f *fixture) archive(after int64) (alarms []engine.ArchivedAlarm) {
	f.t.Helper()
	err := f.archived().Archive(f.t.Context(), after, func([]settings.Version) error { return nil }, func(page []engine.ArchivedAlarm) error {
		alarms = append(alarms, page...)
		return nil
	})
	ok(f.t, err, "archive")
	return alarms
}

func (f *fixture) restore(alarms []engine.ArchivedAlarm) []engine.Restored {
	f.t.Helper()
	effects, err := f.archived().Restore(f.t.Context(), slices.Clone(alarms))
	ok(f.t, err, "restore")
	return effects
}

// removeAlarms deletes all alarms, as a person does.
func (f *fixture) removeAlarms() {
	f.t.Helper()
	f.exec("DELETE FROM ring_attempt")
	f.deleteNotes()
	f.exec("DELETE FROM alarm")
}

// fullRow gives each column of an alarm a value that is not its default.
const fullRow = `UPDATE alarm SET state = 2, generation = 7, latest_ring_at = 1795000900001, next_try_time = 1795000800002, ring_no = 3,
	retry_times = 4, last_error = 'näme', in_doubt = 1, retry_policy = '{"initial":2000,"factor":3,"cap":60000,"limit":5}', ack_timeout = 30000,
	max_rings = 9, priority = 2, traceparent = 'tp', claim_id = 'c1', rung_at = 1795000700003, create_time = 1794000000004,
	update_time = 1795000600005, finished_at = 1795000500006, answer = 4, answered_by = 'who', answered_at = 1795000400007, delivery = 1,
	due_rank = 695, destination = 'refunds', receiver = '{"a":"nä"}', doubt_target = 3, repeat_rule = '{"v":1,"every":60000,"anchor":1000}', repeat_state = '{"n":4,"at":181000}',
	past_generations = '{"n":6,"at":1,"state":3,"by":"nä","until":2}' WHERE id = %d`

// testArchive demands that alarms that are read and stored again have the same columns and attempts.
func testArchive(t *testing.T, f *fixture) {
	long := slices.Repeat([]byte{0, '\\', '\'', 0xff}, 5000)
	ids := f.set(t0, set("full", t0, payload(long)), set("fails", t0), set("empty", t0, payload(nil)),
		set("later", t0.Add(claimTimeout)))
	f.exec(fullRow, ids[0])
	c := f.claim(t0, ids[1])
	c.settle(t0, everyRing(clock.Nacked))
	before := f.archive(0)
	same(t, "ids of the archive", engine.Column(before, func(a *engine.ArchivedAlarm) int64 { return a.ID }),
		sorted(ids))
	same(t, "attempts of the failed alarm", len(before[1].Attempts), 1)
	full := reflect.ValueOf(before[0].Row)
	for i := range full.NumField() {
		name := full.Type().Field(i).Name
		if full.Field(i).IsZero() && name != "Shard" {
			t.Errorf("fullRow gives the column of %s no value, so this test does not notice when it is left out", name)
		}
	}
	same(t, "the archive after the first id", len(f.archive(before[0].ID)), len(before)-1)

	f.removeAlarms()
	isEmpty, err := f.archived().IsEmpty(t.Context())
	if err != nil || !isEmpty {
		t.Fatalf("a database without alarms: empty %v, %v", isEmpty, err)
	}
	same(t, "first restore", f.restore(before), slices.Repeat([]engine.Restored{engine.Created}, len(before)))
	after := f.archive(0)
	same(t, "alarms", len(after), len(before))
	for i := range before {
		if !after[i].Same(&before[i]) {
			t.Errorf("restored %+v\nwant %+v", after[i], before[i])
		}
		if after[i].ID <= before[len(before)-1].ID {
			t.Errorf("the id %d is used again", after[i].ID)
		}
	}
	if isEmpty, err = f.archived().IsEmpty(t.Context()); err != nil || isEmpty {
		t.Errorf("a database with alarms: empty %v, %v", isEmpty, err)
	}

	same(t, "second restore", f.restore(before), slices.Repeat([]engine.Restored{engine.Present}, len(before)))
	f.write(t0, cancel("later"))
	more := before[3]
	more.BusinessID = "more"
	same(t, "third restore", f.restore([]engine.ArchivedAlarm{before[3], more}),
		[]engine.Restored{engine.Different, engine.Created})
	same(t, "the state of the alarm that differs", f.get("later").State, clock.Cancelled)
}

// testRestoredAlarmRings demands that a restored alarm goes on where it was.
func testRestoredAlarmRings(t *testing.T, f *fixture) {
	id := f.set(t0, set("again", t0, acknowledgedWithin(claimTimeout, 3)))[0]
	f.claim(t0, id).wantRings(id).settle(t0, everyRing(clock.Confirmed))
	before := f.archive(0)
	f.removeAlarms()
	f.restore(before)
	due := t0.Add(claimTimeout)
	restored := f.archive(0)[0].ID
	c := f.claim(due, restored).wantRings(restored)
	same(t, "number of the ring", c.Rings[0].RingNo, 2)
	c.settle(due, everyRing(clock.Confirmed))
	same(t, "the alarm after its second ring", f.get("again").RingNo, 2)
}

// testArchiveSnapshot demands that an archive does not see writes that come after its begin.
func testArchiveSnapshot(t *testing.T, f *fixture) {
	f.set(t0, set("before", t0), set("cancelled", t0))
	var states []int64
	err := f.archived().Archive(t.Context(), 0, func([]settings.Version) error {
		_, err := f.tryWrite(t0, cancel("cancelled"), set("after", t0))
		return err
	}, func(page []engine.ArchivedAlarm) error {
		states = append(states, engine.Column(page, func(a *engine.ArchivedAlarm) int64 { return a.State })...)
		return nil
	})
	ok(t, err, "archive")
	same(t, "states", states, []int64{int64(clock.Scheduled), int64(clock.Scheduled)})

	stopped := errors.New("stopped")
	err = f.archived().Archive(t.Context(), 0, func([]settings.Version) error { return stopped }, nil)
	if !errors.Is(err, stopped) {
		t.Errorf("the error of the function is lost: %v", err)
	}
}

// testArchivePages demands that pages hold each alarm once, whatever their payloads.
func testArchivePages(t *testing.T, f *fixture) {
	const count = 1100 // more than a page has
	ids := names("page", count)
	for _, op := range sets(ids[:5], t0, payload(make([]byte, 1<<20))) { // a page ends within them
		f.set(t0, op)
	}
	for part := range slices.Chunk(ids[5:], 500) {
		f.set(t0, sets(part, t0)...)
	}
	same(t, "alarms", engine.Column(f.archive(0), func(a *engine.ArchivedAlarm) string { return a.BusinessID }), ids)
}
