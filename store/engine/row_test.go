package engine

import (
	"database/sql"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/store"
)

// distinctRow returns a readable row with another value in each column.
func distinctRow(t *testing.T) Row {
	t.Helper()
	var r Row
	for i, field := range r.Fields() {
		switch field := field.(type) {
		case *int64:
			*field = int64(1000 + i)
		case *string:
			*field = fmt.Sprintf("text of column %d", i)
		case *[]byte:
			*field = []byte{byte(i)}
		case *sql.NullInt64:
			*field = sql.NullInt64{Int64: int64(1000 + i), Valid: true}
		default:
			t.Fatalf("column %d has the type %T", i, field)
		}
	}
	retry := clock.RetryPolicy{Initial: time.Second, Factor: 2, Cap: time.Minute, Limit: 7}
	r.State, r.PayloadKind, r.InDoubt, r.Answer = int64(clock.Ringing), int64(clock.Binary), 1, int64(clock.Touch)
	r.Delivery, r.RetryPolicy = int64(clock.AtMostOnce), retry.Encode()
	rule, err := repeat.Parse(repeat.Spec{Cron: "@daily", TimeZone: "Europe/Berlin", Times: 3})
	if err != nil {
		t.Fatal(err)
	}
	progress := clock.Progress{Current: repeat.Occurrence{At: 5, Number: 2}, RingsBefore: 1, OccurrenceCounts: clock.OccurrenceCounts{Rung: 1}}
	r.RepeatRule, r.RepeatState = rule.Encode(), progress.Encode()
	named := store.Named{Target: clock.TargetPull, Destination: 9}
	r.Priority, r.DueRank, r.DoubtTarget = 4, int64(store.Rank(named, 4)), int64(clock.TargetStream)
	return r
}

func TestSetAlarmIsTheInverseOfAlarm(t *testing.T) {
	want := distinctRow(t)
	row := want
	a := row.Alarm()
	if a.Unreadable != "" {
		t.Fatal(a.Unreadable)
	}
	var written Row
	written.SetAlarm(&a)
	got, columns := reflect.ValueOf(written), reflect.ValueOf(want)
	for i := range columns.NumField() {
		if !reflect.DeepEqual(got.Field(i).Interface(), columns.Field(i).Interface()) {
			t.Errorf("%s is %v, want %v", columns.Type().Field(i).Name, got.Field(i), columns.Field(i))
		}
	}
}

func TestRowOfAnAlarmWithoutPayloadHasAnEmptyOne(t *testing.T) {
	var r Row
	if r.SetAlarm(&clock.Alarm{}); r.Payload == nil {
		t.Error("the payload is NULL")
	}
}

func TestTextBytesCountsEveryLongText(t *testing.T) {
	row := distinctRow(t)
	a := row.Alarm()
	want := -len(row.RetryPolicy) - len(row.ClaimID) - len(row.RepeatRule) - len(row.RepeatState)
	for _, field := range row.Fields() {
		switch field := field.(type) {
		case *string:
			want += len(*field)
		case *[]byte:
			want += len(*field)
		}
	}
	if got := TextBytes(&a); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
