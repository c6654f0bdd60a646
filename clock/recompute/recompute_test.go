package recompute

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	zoneName = "Pacific/Kanton"
	local    = "2027-06-01T12:00:00"
)

// older and newer are the data of the nodes in these tests. In newer the clock of zoneName is an hour ahead.
func older() *repeat.ZoneData {
	return repeat.Data().With("2098a", map[string]string{zoneName: "Etc/GMT-1"})
}

func newer() *repeat.ZoneData {
	return repeat.Data().With("2099a", map[string]string{zoneName: "Etc/GMT-2"})
}

// database is a store of alarms at a local time in zoneName, in memory. It is Store, Alarms and Time.
type database struct {
	mu       sync.Mutex
	alarms   map[int64]*clock.Alarm
	revision int64
	document string
	lost     int  // changes of the state that another node outruns
	busy     bool // ops are refused
}

// newDatabase returns a database with alarms that were set by other data. Their ring_at is the epoch.
func newDatabase(count int) *database {
	d := &database{alarms: map[int64]*clock.Alarm{}}
	for i := range count {
		d.set(int64(i + 1))
	}
	return d
}

// set stores an alarm by the data of this process, and pretends that other data has computed its time.
func (d *database) set(id int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s := &clock.Set{Key: clock.Key{Application: "shop", BusinessID: fmt.Sprint(id)},
		Content: clock.Content{LatestRingAt: clock.NoInstant}}
	if err := s.SetLocalTime(local, zoneName, "ring_at"); err != nil {
		panic(err)
	}
	s.RingAt = 5
	a := clock.Op{Set: s}.Decide(nil, 0).Alarm
	a.ID = id
	d.alarms[id] = &a
}

func (d *database) moved() (count int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range d.alarms {
		if a.RingAt != 5 {
			count++
		}
	}
	return count
}

func (d *database) ZonedAlarms(_ context.Context, timeZone string, after int64, limit int) (ids []int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id := after + 1; timeZone == zoneName && id <= int64(len(d.alarms))+1 && len(ids) < limit; id++ {
		ids = append(ids, id) // the last one is gone
	}
	return ids, nil
}

func (d *database) Keys(_ context.Context, ids []int64) (map[int64]clock.Key, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	keys := map[int64]clock.Key{}
	for _, id := range ids {
		if a := d.alarms[id]; a != nil {
			keys[id] = a.Key
		}
	}
	return keys, nil
}

func (d *database) ZoneState(context.Context) (revision int64, document string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.revision, d.document, nil
}

func (d *database) ChangeZoneState(_ context.Context, revision int64, document string) (written bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lost > 0 {
		d.lost--
		d.revision++
	}
	if revision != d.revision {
		return false, nil
	}
	d.revision, d.document = revision+1, document
	return true, nil
}

func (d *database) Submit(_ context.Context, op clock.Op) *clock.Pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.busy {
		return clock.Decided(op, clock.Decision{Verdict: clock.Refuse, Err: clock.Unavailable(nil)})
	}
	var row *clock.Alarm
	for _, a := range d.alarms {
		if a.Key == op.Key() {
			row = a
		}
	}
	decision := op.Decide(row, clock.Instant(time.Now().UnixMilli()))
	if decision.Writes() {
		*row = decision.Alarm
	}
	return clock.Decided(op, decision)
}

func (d *database) AtLeast() (clock.Instant, error) {
	return clock.Instant(time.Now().UnixMilli()), nil
}

// node is a Recomputer that runs until stop.
type node struct {
	*Recomputer
	log  bytes.Buffer
	stop func()
}

func (d *database) start(t *testing.T, name string, data *repeat.ZoneData) *node {
	t.Helper()
	n := &node{}
	cfg := DefaultConfig()
	cfg.PageSize = 10
	r, err := New(cfg, Deps{
		Store: d, Alarms: d, Time: d, Data: data, Incarnation: name, Log: slog.New(slog.NewTextHandler(&n.log, nil)),
		Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	n.Recomputer = r
	if err := r.Join(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- r.Run(ctx) }()
	n.stop = func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	return n
}

// inBubble runs a test whose process parses local times by the newer data.
func inBubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	data := newer()
	data.Digests()
	defer repeat.ReplaceData(data)()
	synctest.Test(t, test)
}

func TestNewerDataMovesAllAlarmsOnce(t *testing.T) {
	old := older()
	old.Digests()
	inBubble(t, func(t *testing.T) {
		d := newDatabase(25)
		d.start(t, "older", old).stop()
		young := d.start(t, "newer", repeat.Data())
		time.Sleep(time.Second)
		if v := young.View(); d.moved() != 25 || v.Version != "2099a" || v.Newest != "2099a" || v.Pending != 1 ||
			v.Older() {
			t.Errorf("%d alarms moved, view %+v", d.moved(), v)
		}
		time.Sleep(time.Minute)
		if v := young.View(); v.Pending != 0 {
			t.Errorf("after a minute: %+v", v)
		}
		young.stop()
		if moved := testutil.ToFloat64(young.Recomputer.moved); moved != 25 {
			t.Errorf("%v alarms are counted as moved", moved)
		}
		if log := young.log.String(); strings.Count(log, "alarm moved") != 25 ||
			!strings.Contains(log, "business_id=25 alarm_id=25 generation=1 time_zone="+zoneName+
				" ring_at_before=1970-01-01T00:00:00.005Z ring_at=2027-06-01T10:00:00.000Z") {
			t.Errorf("log: %s", log)
		}
	})
}

func TestZonesStayPendingWhileANodeWithOlderDataRuns(t *testing.T) {
	old := older()
	old.Digests()
	inBubble(t, func(t *testing.T) {
		d := newDatabase(5)
		young := d.start(t, "newer", repeat.Data())
		defer young.stop()
		late := d.start(t, "older", old)
		time.Sleep(10 * time.Minute)
		if v := late.View(); !v.Older() || v.Pending != 1 ||
			strings.Count(late.log.String(), "newer time-zone data") != 1 {
			t.Errorf("the older node has the view %+v and the log %s", v, late.log.String())
		}
		if d.moved() != 5 {
			t.Errorf("%d alarms moved", d.moved())
		}
		d.set(6) // by the older node, right before its end
		late.stop()
		time.Sleep(90 * time.Second)
		if v := young.View(); v.Pending != 0 || d.moved() != 6 {
			t.Errorf("after the end of the older node %d alarms have moved, and the view is %+v", d.moved(), v)
		}
	})
}

func TestOlderDataRecomputesNothing(t *testing.T) {
	old := older()
	old.Digests()
	inBubble(t, func(t *testing.T) {
		d := newDatabase(5)
		d.start(t, "newer", repeat.Data()).stop()
		late := d.start(t, "older", old)
		time.Sleep(10 * time.Minute)
		late.stop()
		if d.moved() != 0 || late.View().Pending != 1 {
			t.Errorf("%d alarms moved, view %+v", d.moved(), late.View())
		}
	})
}

func TestAnotherNodeGoesOnAfterTheLease(t *testing.T) {
	old := older()
	old.Digests()
	inBubble(t, func(t *testing.T) {
		d := newDatabase(25)
		d.start(t, "older", old).stop()
		d.lost = 3
		d.busy = true
		dead := d.start(t, "dead", repeat.Data())
		time.Sleep(time.Second)
		dead.stop()
		d.mu.Lock()
		d.busy = false
		d.mu.Unlock()
		if d.moved() != 0 || !strings.Contains(dead.log.String(), "could not recompute") {
			t.Errorf("%d alarms moved while ops were refused: %s", d.moved(), dead.log.String())
		}
		other := d.start(t, "other", repeat.Data())
		defer other.stop()
		time.Sleep(30 * time.Second)
		if d.moved() != 0 {
			t.Error("two nodes scan at once")
		}
		time.Sleep(40 * time.Second)
		if d.moved() != 25 {
			t.Errorf("%d alarms moved after the lease", d.moved())
		}
	})
}

func TestConfigGivesReasons(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*Config){
		"page": func(c *Config) { c.PageSize = 0 }, "settle": func(c *Config) { c.Settle = 2 * c.Refresh },
		"lease": func(c *Config) { c.Lease = time.Second },
	} {
		cfg := DefaultConfig()
		change(&cfg)
		if _, err := New(cfg, Deps{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
