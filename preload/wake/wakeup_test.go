package wake

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Decoded wake-ups have all rows that were encoded, in their order. No wake-up exceeds maxWakeBytes or has a line
// break.
func TestWakeUpsCarryAllRows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shard := rapid.IntRange(0, 1023).Draw(t, "shard")
		rows := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) store.Due {
			return store.Due{
				ID:          rapid.Int64Range(1, math.MaxInt64).Draw(t, "id"),
				NextTryTime: clock.Instant(rapid.Int64Range(0, int64(clock.MaxInstant)).Draw(t, "due")),
				Rank:        rapid.IntRange(0, 9).Draw(t, "rank"), Shard: shard,
				Application: strings.Repeat("x", rapid.IntRange(1, clock.MaxApplication).Draw(t, "application")),
			}
		}), 0, 200).Draw(t, "rows")
		var out []store.Due
		for _, body := range encodeWakes(shard, rows) {
			if len(body) > maxWakeBytes || bytes.ContainsAny(body, "\n\x00") {
				t.Fatalf("%d bytes: %q", len(body), body)
			}
			more, err := decodeWake(body)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, more...)
		}
		if !slices.Equal(rows, out) {
			t.Fatalf("%v became %v", rows, out)
		}
	})
	longest := store.Due{ID: math.MaxInt64, NextTryTime: clock.MaxInstant, Rank: 9, Shard: 1 << 20,
		Application: strings.Repeat("x", 64)}
	if bodies := encodeWakes(1<<20, slices.Repeat([]store.Due{longest}, maxWakeRows)); len(bodies) != 1 ||
		len(bodies[0]) > maxWakeBytes {
		t.Errorf("%d wake-ups, the first of %d bytes", len(bodies), len(bodies[0]))
	}
}

var badWakes = []string{
	``, `{}`, `null`, `[]`, `7`, `{"shard":1}`, `{"shard":1,"rows":[]}`, `{"shard":1,"rows":null}`,
	`{"shard":-1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":0,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":-1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":10,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":-1,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":""}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a b"}]}`,
	`{"shard":1,"rows":[{"id":1.5,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":99999999999999999999,"due":1,"rank":0,"app":"a"}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}],"more":1}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a","more":1}]}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}{}`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]`,
	`{"shard":1,"rows":[{"id":1,"due":1,"rank":0,"app":"a"}]}` + strings.Repeat(" ", maxWakeBytes),
}

const goodWake = `{"shard":1,"rows":[{"id":1,"due":1000500,"rank":0,"app":"a"}]}`

func TestInvalidWakeUpsAreRejected(t *testing.T) {
	if _, err := decodeWake([]byte(goodWake)); err != nil {
		t.Error(err)
	}
	for _, body := range badWakes {
		if rows, err := decodeWake([]byte(body)); err == nil {
			t.Errorf("%.100s: %v", body, rows)
		}
	}
}

// The rows of every wake-up that can be decoded are the same after they are encoded and decoded again.
func FuzzDecodeWake(f *testing.F) {
	for _, body := range append(badWakes, goodWake) {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		rows, err := decodeWake(body)
		if err != nil {
			return
		}
		var again []store.Due
		for _, body := range encodeWakes(rows[0].Shard, rows) {
			more, err := decodeWake(body)
			if err != nil {
				t.Fatalf("%q: %v", body, err)
			}
			again = append(again, more...)
		}
		if !slices.Equal(rows, again) {
			t.Fatalf("%q: %v, then %v", body, rows, again)
		}
	})
}
