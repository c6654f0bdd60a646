package store

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/clockd/clockd/clock"
)

const judgeNow clock.Instant = 1_000_000

// judgeTime reads a time relative to judgeNow.
func judgeTime(t *testing.T, text string) clock.Instant {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return judgeNow.Add(d)
}

func judgeTarget(t *testing.T, name string) clock.TargetKind {
	t.Helper()
	kind, err := clock.ParseTargetKind(name)
	if err != nil {
		t.Fatal(err)
	}
	return kind
}

// judgeNamed reads a target, or a target, a slash and the number of a destination.
func judgeNamed(t *testing.T, text string) (n Named) {
	t.Helper()
	name, number, _ := strings.Cut(text, "/")
	n.Target = judgeTarget(t, name)
	n.Destination, _ = strconv.Atoi(number)
	return n
}

// claimOf reads a claim at judgeNow, and the database's clock.
func claimOf(t *testing.T, d *datadriven.TestData) (r *ClaimRequest, server clock.Instant) {
	t.Helper()
	r, server = &ClaimRequest{Now: judgeNow, ClaimID: "new", MaxBytes: 100, Named: map[int64]Named{}}, judgeNow
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "at_most_once":
			r.AtMostOnce = true
		case "end_only":
			r.EndOnly = true
		case "server":
			r.ServerClock, server = true, judgeTime(t, arg.Vals[0])
		case "target":
			r.Target = judgeTarget(t, arg.Vals[0])
		case "in_doubt_only":
			r.InDoubtOnly = true
		case "other":
			r.OtherTargets = append(r.OtherTargets, judgeTarget(t, arg.Vals[0]))
		case "named": // id:target
			var id int64
			name := ""
			if _, err := fmt.Sscanf(arg.Vals[0], "%d:%s", &id, &name); err != nil {
				t.Fatal(err)
			}
			r.Named[id] = judgeNamed(t, name)
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	return r, server
}

// candidateOf reads a row: its id, then what differs from a scheduled row that is due now.
func candidateOf(t *testing.T, line string) Candidate {
	t.Helper()
	words := strings.Fields(line)
	c := Candidate{
		Key: clock.Key{Application: "shop", BusinessID: words[0]}, Generation: 1, MaxRings: 3, Retry: clock.DefaultRetryPolicy(),
		LatestRingAt: clock.NoInstant, PayloadLength: 40, RingRow: clock.RingRow{
			State: clock.Scheduled, NextTryTime: judgeNow, RungAt: clock.NoInstant, FinishedAt: clock.NoInstant,
		},
	}
	if _, err := fmt.Sscan(words[0], &c.ID); err != nil {
		t.Fatal(err)
	}
	priority, named := 0, Named{}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		var err error
		switch name {
		case "due":
			c.NextTryTime = judgeTime(t, value)
		case "latest":
			c.LatestRingAt = judgeTime(t, value)
		case "bytes":
			_, err = fmt.Sscan(value, &c.PayloadLength)
		case "priority":
			_, err = fmt.Sscan(value, &priority)
		case "names":
			named = judgeNamed(t, value)
		case "at_most_once":
			c.Delivery = clock.AtMostOnce
		case "state":
			c.State, err = clock.ParseState(value)
		case "in_doubt":
			c.InDoubt = true
		case "claimed":
			c.State = clock.Ringing
		case "went":
			c.DoubtTarget = judgeTarget(t, value)
		case "unacknowledged": // after so many rings
			c.State, c.RungAt, c.AckTimeout = clock.Ringing, judgeNow-1000, time.Second
			_, err = fmt.Sscan(value, &c.RingNo)
		case "unreadable":
			c.Unreadable = value
		default:
			err = fmt.Errorf("unknown word %s", name)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.Rank = Rank(named, priority)
	return c
}

// `go test ./store -run TestJudge -rewrite` writes what the code does now; read the difference.
func TestJudge(t *testing.T) {
	datadriven.RunTest(t, "testdata/judge", func(t *testing.T, d *datadriven.TestData) string {
		r, server := claimOf(t, d)
		var candidates []Candidate
		for line := range strings.Lines(d.Input) {
			candidates = append(candidates, candidateOf(t, line))
		}
		j := r.Judge(candidates, server)
		var b strings.Builder
		list := func(name string, ids []int64) {
			if len(ids) > 0 {
				fmt.Fprintln(&b, name+":", strings.Trim(fmt.Sprint(ids), "[]"))
			}
		}
		var taken []int64
		for i := range j.Taken {
			taken = append(taken, j.Taken[i].ID)
		}
		list("rings", taken)
		list("deferred", j.Deferred)
		list("at most once", j.AtMostOnce)
		for _, e := range j.Elsewhere {
			fmt.Fprintf(&b, "elsewhere: %d %s\n", e.ID, e.Target)
		}
		for _, e := range j.EndedAlarms() {
			fmt.Fprintf(&b, "ends: %d as %s: %s\n", e.ID, e.State, e.Reason)
		}
		for _, a := range j.Attempts {
			fmt.Fprintf(&b, "attempt: %d ring %d %s\n", a.AlarmID, a.RingNo, a.Outcome)
		}
		if j.PassedOver > 0 {
			fmt.Fprintln(&b, "passed over:", j.PassedOver)
		}
		due := slices.IsSortedFunc(candidates, func(a, b Candidate) int { return a.Position().Compare(b.Position()) })
		if !due {
			t.Error("the candidates are not in due order")
		}
		return b.String()
	})
}
