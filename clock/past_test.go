package clock

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// againSet returns the row after a set for another time.
func againSet(row *Alarm, at Instant, now Instant) *Alarm {
	s := &Set{Key: row.Key, Content: row.Content}
	s.RingAt = at
	a := armed(row, s, now)
	return &a
}

func TestSetsKeepWhatTheyOverwrite(t *testing.T) {
	a := armed(nil, &Set{Key: Key{"shop", "1"}, Content: Content{RingAt: 100}}, 10)
	row := againSet(&a, 200, 20)
	row.State, row.RingNo, row.RungAt, row.FinishedAt = Rung, 1, 201, 300
	row.Answer, row.AnsweredBy, row.AnsweredAt = Ack, "ann", 300
	row = againSet(row, 400, 310)
	row.State, row.FinishedAt = Cancelled, 350
	row = againSet(row, 500, 360)
	row.State, row.FinishedAt, row.LastError = Dead, 510, "too often"
	row.Attempts = []Attempt{{Generation: 4, RingNo: 1, Time: 505, Outcome: Buried}}
	row = againSet(row, 600, 520)
	row.Attempts = []Attempt{{Generation: 4, RingNo: 1, Time: 505, Outcome: Buried}}
	const want = `10 created 1.0 for 100
20 set 2.0 for 200
201 rung 2.1
300 acknowledged 2.1  ann
310 set 3.0 for 400
350 cancelled 3.0
360 set 4.0 for 500
505 buried 4.1
510 dead 4.0 too often
520 set 5.0 for 600`
	if got := text(row.Events(nil, nil, nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	acts := []Act{
		{At: 520, Actor: Actor{Name: "bob"}, Action: "trigger", After: `{"generation":5}`},
		{At: 350, Actor: Actor{Name: "bob"}, Action: "cancel", After: `{"generation":3}`},
	}
	told := strings.NewReplacer(
		"350 cancelled 3.0", "350 cancelled 3.0  bob", "520 set 5.0 for 600", "520 triggered 5.0  bob",
	).Replace(want)
	if got := text(row.Events(acts, nil, nil)); got != told {
		t.Errorf("with the acts of people: got\n%s\nwant\n%s", got, told)
	}
}

func TestKicksAndDiscardsKeepTheEnd(t *testing.T) {
	a := armed(nil, &Set{Key: Key{"shop", "1"}, Content: Content{RingAt: 100}}, 10)
	a.State, a.RingNo, a.RungAt, a.FinishedAt, a.LastError = Dead, 1, 101, 120, "not acknowledged"
	a.Answer, a.AnsweredBy, a.AnsweredAt = Touch, "ann", 102
	kicked := decideKick(&a, &Kick{Key: a.Key}, 130).Alarm
	kicked.Generation += RaisedGenerations // the database was restored
	kicked.State, kicked.FinishedAt, kicked.LastError = Expired, 140, "too late"
	discarded := decideDiscard(&kicked, &Discard{Key: a.Key}, 150).Alarm
	again := againSet(&discarded, 300, 160)
	const end = `10 created 1.0 for 100
101 rung 1.1
102 touched 1.1  ann
120 dead 1.0 not acknowledged
`
	const want = end + `130 kicked 1000001.0
140 expired 1000001.0 too late
150 cancelled 1000001.0
160 set 1000002.0 for 300`
	if got := text(again.Events(nil, nil, nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	acts := []Act{
		{At: 150, Actor: Actor{Name: "bob"}, Action: "discard", After: `{"generation":1000001}`},
		{At: 130, Actor: Actor{Name: "bob"}, Action: "kick", After: `{"generation":1,"note":"repaired"}`},
	}
	told := strings.NewReplacer(
		"130 kicked 1000001.0", "130 kicked 1.0 repaired bob",
		"150 cancelled 1000001.0", "150 discarded 1000001.0  bob",
	).Replace(want)
	if got := text(again.Events(acts, nil, nil)); got != told {
		t.Errorf("with the acts of people: got\n%s\nwant\n%s", got, told)
	}
	kicked.State, kicked.FinishedAt, kicked.RingNo, kicked.RungAt, kicked.Answer = Rung, 145, 2, 145, NoAnswer
	if got, want := text(kicked.Events(nil, nil, nil)), end+"130 kicked 1000001.0\n145 rung 1000001.2"; got != want {
		t.Errorf("after another ring: got\n%s\nwant\n%s", got, want)
	}
}

func TestARestoreLeavesTheLifeOfAnAlarm(t *testing.T) {
	a := armed(nil, &Set{Key: Key{"shop", "1"}, Content: Content{RingAt: 100}}, 10)
	restored := a
	restored.Generation += RaisedGenerations
	if got, want := text(restored.Events(nil, nil, nil)), "10 created 1000001.0 for 100"; got != want {
		t.Errorf("never changed: got\n%s\nwant\n%s", got, want)
	}
	row := againSet(&a, 200, 20)
	row.Generation += RaisedGenerations
	row = againSet(row, 300, 30)
	const want = "10 created 1.0 for 100\n20 set 1000002.0 for 200\n30 set 1000003.0 for 300"
	if got := text(row.Events(nil, nil, nil)); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestOldGenerationsMakeRoom(t *testing.T) {
	a := armed(nil, &Set{Key: Key{"shop", "1"}, Content: Content{RingAt: 100}}, 10)
	row := &a
	for i := range 20 {
		row = againSet(row, Instant(200+i), Instant(20+i))
	}
	past := row.Past.List()
	if len(past) != keptGenerations || past[0].Generation != 21-keptGenerations {
		t.Errorf("the row keeps %+v", past)
	}
	events := row.Events(nil, nil, nil)
	if first := events[0]; first.Kind != EventCreated || first.RingAt != NoInstant {
		t.Errorf("the first event is %+v: nothing tells when the first generation was to ring", first)
	}
	second := events[1]
	if second.Kind != EventSet || second.Generation != past[1].Generation || second.RingAt != past[1].RingAt {
		t.Errorf("the second event is %+v", second)
	}
}

func TestPastGenerationsFitTheColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var past PastGenerations
		for range rapid.IntRange(1, 12).Draw(t, "generations") {
			row := &Alarm{Generation: 1<<63 - 1, AnsweredAt: MaxInstant, Answer: Ack, Past: past}
			row.State, row.RingAt, row.RungAt, row.FinishedAt, row.RingNo = Dead, MaxInstant, MaxInstant, MaxInstant, 1<<31-1
			row.LastError = rapid.StringN(0, 600, 600).Draw(t, "reason")
			row.AnsweredBy = rapid.StringN(0, 128, 128).Draw(t, "by")
			past = past.with(row, MaxInstant)
			all := past.List()
			if len(all) > keptGenerations {
				t.Fatalf("%d generations", len(all))
			}
			if len(past) > MaxPastGenerations || len(all) == 0 || strings.Contains(string(past), "\x00") {
				t.Fatalf("%d bytes with %d generations", len(past), len(all))
			}
			if last := all[len(all)-1]; last.RingAt != MaxInstant || last.ReplacedAt != MaxInstant || last.State != Dead {
				t.Fatalf("the last generation is %+v", last)
			}
		}
	})
}

func FuzzPastGenerations(f *testing.F) {
	f.Add(`{"n":1,"at":100,"state":3,"ring":1,"rung":101,"until":200}`)
	f.Add(`{"n":-1,"at":-1,"state":-1,"rung":-2,"end":-3,"answer":9,"until":-4}` + "\n{}")
	f.Add("{\n\n\n{")
	f.Fuzz(func(t *testing.T, stored string) {
		row := &Alarm{Generation: 9, AnsweredAt: NoInstant, Past: PastGenerations(stored)}
		row.State, row.RungAt, row.FinishedAt = Scheduled, NoInstant, NoInstant
		row.Events(nil, nil, nil)
		again := row.Past.with(row, Instant(time.Hour.Milliseconds()))
		if len(again) > MaxPastGenerations || len(again.List()) == 0 {
			t.Errorf("%q becomes %q", stored, again)
		}
	})
}
