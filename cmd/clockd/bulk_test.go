package main

import (
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
)

// setAlarms sets alarms with these business ids an hour ahead.
func (p *process) setAlarms(application string, ids ...string) {
	p.t.Helper()
	for _, id := range ids {
		p.must(http.StatusCreated, http.MethodPut, alarmPath(application, id), map[string]any{"delay": "1h"})
	}
}

// ended waits until a job has ended, and returns it.
func ended(t *testing.T, c *client.Client, id string) *client.BulkJob {
	t.Helper()
	var job *client.BulkJob
	eventually(t, "the job ends", func() bool {
		var err error
		job, err = c.Bulk(t.Context(), id)
		return err == nil && !job.EndedAt.IsZero()
	})
	return job
}

// TestBulkJobsChangeWhatTheirFilterSelects runs each action from the command line.
func TestBulkJobsChangeWhatTheirFilterSelects(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			p := start(t, "CLOCKD_DATABASE_URL="+e.open(t))
			run := func(fails bool, args ...string) string {
				t.Helper()
				out, err := command([]string{"CLOCKD_SERVER=" + p.url},
					append([]string{"bulk"}, args...)...).CombinedOutput()
				if (err != nil) != fails {
					t.Fatalf("clockd bulk %s: %v, printed %s", strings.Join(args, " "), err, out)
				}
				return string(out)
			}
			has := func(out string, wants ...string) {
				t.Helper()
				for _, want := range wants {
					if !strings.Contains(out, want) {
						t.Errorf("%q is missing in\n%s", want, out)
					}
				}
			}
			c, err := client.New(p.url)
			if err != nil {
				t.Fatal(err)
			}
			p.setAlarms("shop", "a-1", "a-2", "b-1")
			p.setAlarms("bank", "a-1")
			repeats := client.Set{Repeat: &client.Repeat{Every: time.Hour}}
			if _, err := c.Set(t.Context(), "shop", "a-repeats", repeats); err != nil {
				t.Fatal(err)
			}
			before, err := c.Get(t.Context(), "shop", "a-1")
			if err != nil {
				t.Fatal(err)
			}
			has(run(false, "count", "shop", "shift", "--later", "30m", "--prefix", "a"), "3 alarms of shop",
				"a-1, a-2, a-repeats")
			has(run(false, "start", "shop", "shift", "--later", "30m", "--prefix", "a", "--by", "ann"),
				"is done: shift of alarms of shop, 2 changed, 1 refused (repeats)")
			a, err := c.Get(t.Context(), "shop", "a-1")
			if err != nil || a.RingAt.Sub(before.RingAt) != 30*time.Minute || a.Generation != 2 {
				t.Errorf("shifted from %v to %v, %v", before.RingAt, a.RingAt, err)
			}
			has(run(false, "start", "shop", "pause",
				"--due-after", a.RingAt.Add(-time.Minute).Format(time.RFC3339Nano),
				"--due-before", a.RingAt.Add(time.Minute).Format(time.RFC3339Nano)), "2 changed")
			has(run(false, "start", "shop", "resume", "--json"), `"status":"done"`, `"changed":2`, `"refused":{}`)
			has(run(false, "start", "shop", "cancel",
				"--frozen-at", before.CreatedAt.Add(-time.Second).Format(time.RFC3339Nano)), "0 changed")
			has(run(false, "start", "shop", "cancel"), "4 changed")
			for application, want := range map[string]client.State{"bank": client.Scheduled, "shop": client.Cancelled} {
				if a, err := c.Get(t.Context(), application, "a-1"); err != nil || a.State != want {
					t.Errorf("the alarm of %s is %v, want %s; %v", application, a, want, err)
				}
			}
			life, err := c.Events(t.Context(), "shop", "a-1")
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, e := range life.Events[1:] {
				if kinds = append(kinds, e.Kind+" "+e.Detail); e.Kind == "bulk" && (e.Job == "" || e.By == "") {
					t.Errorf("%+v", e)
				}
			}
			want := []string{"bulk shift", "set ", "bulk pause", "bulk resume", "bulk cancel", "cancelled "}
			if !slices.Equal(kinds, want) {
				t.Errorf("life %v, want %v", kinds, want)
			}
			has(run(false, "list"), "STATUS", "shift", "ann", "done")
			has(run(true, "start", "shop", "shift"), "field shift")
			has(run(true, "start", "shop", "kick", "--state", "paused"), "field state")
			has(run(true, "show", "unknown"), "unknown_job")
		})
	}
}

// dueAlarm is when an alarm rings, in Unix milliseconds, and how often it was set.
type dueAlarm struct{ targetRingAt, generation int64 }

// dueAlarms reads the application's alarms from the database.
func dueAlarms(t *testing.T, db *sql.DB, application string) map[string]dueAlarm {
	t.Helper()
	rows, err := db.QueryContext(t.Context(),
		fmt.Sprintf("SELECT business_id, target_ring_at, generation FROM alarm WHERE application = '%s'", application))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	alarms := map[string]dueAlarm{}
	for rows.Next() {
		var id string
		var a dueAlarm
		if err := rows.Scan(&id, &a.targetRingAt, &a.generation); err != nil {
			t.Fatal(err)
		}
		alarms[id] = a
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return alarms
}

// TestBulkJobGoesOnAfterTheDeathOfItsNode kills the node that works on a job. Another node takes the job over, and no
// alarm is shifted twice.
func TestBulkJobGoesOnAfterTheDeathOfItsNode(t *testing.T) {
	t.Parallel()
	const number, most = 30_000, 5
	databaseURL := mariadb(t)
	survivor := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	survivor.fill("crowded", number)
	c, err := client.New(survivor.url)
	if err != nil {
		t.Fatal(err)
	}
	db := openDatabase(t, databaseURL)
	before := dueAlarms(t, db, "crowded")
	jobs := int64(0)
	for running := false; !running; { // on a busy machine a job may end before its node is killed
		if jobs++; jobs > most {
			t.Fatalf("each of %d jobs ended before the kill", most)
		}
		victim := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
		there, err := client.New(victim.url)
		if err != nil {
			t.Fatal(err)
		}
		job, err := there.StartBulk(t.Context(),
			client.BulkFilter{Application: "crowded", Action: client.BulkShift, Shift: -time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the job has begun", func() bool {
			job, err = c.Bulk(t.Context(), job.ID)
			return err == nil && job.Changed > 0
		})
		victim.kill()
		running = job.Status == "running"
		end := ended(t, c, job.ID)
		if end.Status != "done" || end.Changed > number || len(end.Refused) > 0 {
			t.Errorf("job %s", end.Raw)
		}
	}
	after := dueAlarms(t, db, "crowded")
	if len(before) != number || len(after) != number {
		t.Fatalf("%d alarms before the jobs, %d after them", len(before), len(after))
	}
	for id, a := range after {
		want := dueAlarm{before[id].targetRingAt - jobs*time.Hour.Milliseconds(), 1 + jobs}
		if a != want {
			t.Fatalf("%s was shifted from %+v to %+v, want %+v", id, before[id], a, want)
		}
	}
}

// TestBulkJobIsStopped stops a job. Some alarms are changed, the others are not. The audit has the start and the stop.
func TestBulkJobIsStopped(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	const number = 30_000
	p.fill("crowded", number)
	c, err := client.New(p.url)
	if err != nil {
		t.Fatal(err)
	}
	job, err := c.StartBulk(t.Context(), client.BulkFilter{Application: "crowded", Action: client.BulkPause})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the job has begun", func() bool {
		j, err := c.Bulk(t.Context(), job.ID)
		return err == nil && j.Changed > 0
	})
	if _, err := c.StopBulk(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	end := ended(t, c, job.ID)
	if end.Status != "stopped" || end.Changed == 0 || end.Changed >= number {
		t.Errorf("job %s", end.Raw)
	}
	var acts int
	err = openDatabase(t, databaseURL).QueryRowContext(t.Context(), `SELECT count(*) FROM audit
		WHERE application = 'crowded' AND subject = '`+job.ID+`' AND action IN ('bulk_start', 'bulk_stop')`).Scan(&acts)
	if err != nil || acts != 2 {
		t.Errorf("acts on the job: %d, %v", acts, err)
	}
	if none, err := c.BulkJobs(t.Context(), "other"); err != nil || len(none) > 0 {
		t.Errorf("jobs of another application: %d, %v", len(none), err)
	}
	jobs, err := c.BulkJobs(t.Context(), "crowded")
	if err != nil || !slices.ContainsFunc(jobs, func(j *client.BulkJob) bool { return j.ID == job.ID }) {
		t.Errorf("%d jobs, %v", len(jobs), err)
	}
	again, err := c.StopBulk(t.Context(), job.ID)
	if err != nil || fmt.Sprint(again.EndedAt) != fmt.Sprint(end.EndedAt) {
		t.Errorf("stopped again: %+v, %v", again, err)
	}
}
