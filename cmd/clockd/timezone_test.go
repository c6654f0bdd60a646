package main

import (
	"archive/zip"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// kanton is the time zone whose rules the newer build changes: from 13 to 14 hours ahead of UTC, without daylight
// saving.
const (
	kanton       = "Pacific/Kanton"
	kantonNow    = 13 * time.Hour
	kantonSource = "Pacific/Kiritimati"
)

// builtWithNewerData builds clockd with newer time-zone data, in which kanton has the rules of kantonSource. It returns
// the path of the program.
func builtWithNewerData(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	archive, version, program := filepath.Join(dir, "zoneinfo.zip"), filepath.Join(dir, "zoneversion.go"), filepath.Join(dir, "clockd")
	changeZone(t, "../../clock/repeat/zoneinfo.zip", archive)
	text := "package repeat\n\nconst zoneVersion, zoneChecksum = \"2099z\", \"\"\n"
	if err := os.WriteFile(version, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := buildOverlaid(program, map[string]string{"clock/repeat/zoneinfo.zip": archive, "clock/repeat/zoneversion.go": version}); err != nil {
		t.Fatal(err)
	}
	return program
}

// changeZone copies an archive of time zones. In the copy kanton has the rules of kantonSource.
func changeZone(t *testing.T, from, to string) {
	t.Helper()
	r, err := zip.OpenReader(from)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	out, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	w := zip.NewWriter(out)
	for _, f := range r.File {
		source := f.Name
		if source == kanton {
			source = kantonSource
		}
		if strings.HasSuffix(source, "/") {
			continue
		}
		content, err := r.Open(source)
		if err != nil {
			t.Fatal(err)
		}
		target, err := w.Create(f.Name)
		if err == nil {
			_, err = io.Copy(target, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}

// zonedAlarm is what a response says about an alarm with a time zone.
type zonedAlarm struct {
	RingAt     time.Time `json:"ring_at"`
	Generation int64     `json:"generation"`
	Occurrence *struct {
		At time.Time `json:"at"`
	} `json:"occurrence"`
}

// zoned reads an alarm. due is the time of its next ring.
func (p *process) zoned(id string) (a zonedAlarm, due time.Time) {
	p.t.Helper()
	if status, _, err := p.decode(http.MethodGet, alarmPath("shop", id), nil, &a); err != nil ||
		status != http.StatusOK {
		p.t.Fatalf("get %s: %d, %v", id, status, err)
	}
	if a.Occurrence != nil {
		return a, a.Occurrence.At
	}
	return a, a.RingAt
}

// A build with newer time-zone data joins a database. It moves the alarms of the zone whose rules have changed, earlier
// or later, whatever node rings them, and no others. The node with older data goes on, and warns. The generation stays.
func TestNewerTimeZoneDataMovesAlarms(t *testing.T) {
	t.Parallel()
	newer := builtWithNewerData(t)
	forOne(t, "postgresql", func(t *testing.T, databaseURL string, b *testBroker) {
		older := startOn(t, databaseURL, b)
		received := []*receiver{receiveFrom(older, b, "shop")}
		const soon, later = 12, 5 // alarms
		due := time.Now().Add(25 * time.Second).Truncate(time.Second)
		local := func(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05") }
		for i := range soon { // an hour after due for the older build, and at due for the newer one
			at := due.Add(kantonNow + time.Hour)
			older.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("local-", i)),
				map[string]any{"ring_at": local(at), "time_zone": kanton, "payload": i})
			cron := fmt.Sprintf("%d %d %d * * *", at.UTC().Second(), at.UTC().Minute(), at.UTC().Hour())
			older.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("cron-", i)),
				map[string]any{"repeat": map[string]any{"cron": cron, "time_zone": kanton}, "payload": i})
		}
		for i := range later {
			older.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("other-", i)),
				map[string]any{"ring_at": local(due.Add(14 * time.Hour).Add(time.Hour)), "time_zone": kantonSource,
					"payload": i})
		}
		if _, at := older.zoned("local-0"); !at.Equal(due.Add(time.Hour)) {
			t.Fatalf("by the older data the alarm rings at %s, want %s", at, due.Add(time.Hour))
		}
		env := []string{"CLOCKD_DATABASE_URL=" + databaseURL}
		if b != nil {
			env = append(env, b.env()...)
		}
		alone := strings.HasPrefix(databaseURL, "sqlite:")
		if alone {
			if err := older.terminate(); err != nil {
				t.Fatal(err)
			}
		}
		young := startProgram(t, newer, env...)
		if b == nil {
			received = append(received, young.listen("shop"))
		}
		eventually(t, "the newer build has moved the alarms", func() bool {
			_, first := young.zoned("local-0")
			return first.Equal(due) && young.metric("clockd_recompute_moved_alarms_total") == 2*soon
		})
		if !alone {
			eventually(t, "the older build warns", func() bool {
				details := older.details("time_zone_data", statusWarning)
				return len(details) == 1 && strings.Contains(details[0], "another node has had 2099z")
			})
		}
		if details := young.details("time_zone_data", statusOK); len(details) != 1 ||
			!strings.HasPrefix(details[0], "2099z") {
			t.Errorf("the newer build is not ok: %v", details)
		}
		rings := func() (all []receivedRing) {
			for _, r := range received {
				all = append(all, r.all()...)
			}
			return all
		}
		eventually(t, "the moved alarms ring", func() bool { return len(rings()) >= 2*soon })
		for _, ring := range rings() {
			if late := ring.arrived.Sub(due); strings.HasPrefix(ring.businessID, "other") || late < 0 {
				t.Errorf("%s rang %s after its new time", ring.businessID, late)
			}
		}
		for i := range soon {
			var a zonedAlarm
			eventually(t, "the next ring is a day later", func() bool { // the outcome is written after the ring has arrived
				var next time.Time
				a, next = young.zoned(fmt.Sprint("cron-", i))
				return next.Equal(due.Add(24 * time.Hour))
			})
			if a.Generation != 1 {
				t.Errorf("cron-%d has generation %d", i, a.Generation)
			}
		}
	})
}
