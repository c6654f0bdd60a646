package wake

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Courier carries wake-ups to the nodes that ring alarms of a shard. A wake-up may be lost. Then the owner's next sweep
// finds its rows.
type Courier interface {
	// Send sends a body to the nodes that ring alarms of the shard. It never blocks. The caller does not change body
	// afterwards.
	Send(shard int, body []byte)
}

// wakeUp is the JSON form of a wake-up: rows of one shard that the sending node committed. Example, with due in Unix
// milliseconds:
//
//	{"shard":7,"rows":[{"id":1,"due":1000500,"rank":9,"app":"shop"}]}
type wakeUp struct {
	Shard int       `json:"shard"`
	Rows  []wakeRow `json:"rows"`
}

type wakeRow struct {
	ID          int64  `json:"id"`
	Due         int64  `json:"due"`
	Rank        int    `json:"rank"`
	Application string `json:"app"`
}

const (
	// maxWakeBytes is the largest size of a wake-up. Every Courier can carry it.
	maxWakeBytes = store.MaxNotice
	// maxWakeRowBytes is the largest size of a row in a wake-up: two numbers of 20 digits, a rank, an application of 64
	// bytes.
	maxWakeRowBytes = 160
	// wakeHeadBytes is the room for the JSON around the rows.
	wakeHeadBytes = 64
	// maxWakeRows is the number of rows that always fit into a wake-up.
	maxWakeRows = (maxWakeBytes - wakeHeadBytes) / maxWakeRowBytes
)

// encodeWakes encodes rows of one shard as wake-ups. Each is at most maxWakeBytes long and has no line break.
func encodeWakes(shard int, rows []store.Due) (bodies [][]byte) {
	for len(rows) > 0 {
		n := min(len(rows), maxWakeRows)
		w := wakeUp{Shard: shard, Rows: make([]wakeRow, n)}
		for i, d := range rows[:n] {
			w.Rows[i] = wakeRow{ID: d.ID, Due: int64(d.NextTryTime), Rank: d.Rank, Application: d.Application}
		}
		body, err := json.Marshal(w)
		if err != nil {
			panic(fmt.Sprintf("encode the rows of a wake-up: %v", err))
		}
		bodies, rows = append(bodies, body), rows[n:]
	}
	return bodies
}

var (
	errWakeTooLong = errors.New("the wake-up is too long")
	errWakeTail    = errors.New("the wake-up has data after its end")
	errWakeValue   = errors.New("the wake-up has a value that no row can have")
)

// decodeWake returns the rows of a wake-up, at least one. It returns an error for unknown fields, for values that a row
// cannot have, and for anything but one JSON object.
func decodeWake(body []byte) ([]store.Due, error) {
	if len(body) > maxWakeBytes {
		return nil, errWakeTooLong
	}
	var w wakeUp
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return nil, fmt.Errorf("decode the wake-up: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errWakeTail
	}
	if w.Shard < 0 || len(w.Rows) == 0 {
		return nil, errWakeValue
	}
	rows := make([]store.Due, len(w.Rows))
	for i, r := range w.Rows {
		due := clock.Instant(r.Due)
		if r.ID < 1 || !due.Valid() || !store.ValidRank(r.Rank) || clock.ValidateApplication(r.Application) != nil {
			return nil, errWakeValue
		}
		rows[i] = store.Due{ID: r.ID, NextTryTime: due, Rank: r.Rank, Shard: w.Shard, Application: r.Application}
	}
	return rows, nil
}
