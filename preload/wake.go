package preload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// Courier carries wake-ups to the nodes that ring a shard. They may be lost: that costs at most until the next sweep.
type Courier interface {
	// Send hands a body over for whoever rings the shard; it never blocks, and body is not changed afterwards.
	Send(shard int, body []byte)
}

// wakeUp is what a node tells others of what it committed on one shard, as JSON: {"shard":7,"rows":[{"id":1,"due":ms,
// "rank":9,"app":"shop"}]}.
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
	// maxWake bounds a wake-up, in bytes, so that every Courier can carry it.
	maxWake = store.MaxNotice
	// maxWakeRow is what a row takes in it, at most: two numbers of 20 digits, a rank, an application of 64 bytes.
	maxWakeRow = 160
	// wakeHead is room for all that is around the rows.
	wakeHead = 64
	// wakeRows is how many rows always have room.
	wakeRows = (maxWake - wakeHead) / maxWakeRow
)

// encodeWakes returns wake-ups that have all rows of the shard, each at most maxWake bytes and without a line break.
func encodeWakes(shard int, rows []store.Due) (bodies [][]byte) {
	for len(rows) > 0 {
		n := min(len(rows), wakeRows)
		w := wakeUp{Shard: shard, Rows: make([]wakeRow, n)}
		for i, d := range rows[:n] {
			w.Rows[i] = wakeRow{ID: d.ID, Due: int64(d.NextTryTime), Rank: d.Rank, Application: d.Application}
		}
		body, err := json.Marshal(w)
		if err != nil {
			panic(fmt.Sprintf("numbers and strings cannot be encoded: %v", err))
		}
		bodies, rows = append(bodies, body), rows[n:]
	}
	return bodies
}

var (
	errWakeLong  = errors.New("a wake-up that is too long")
	errWakeTail  = errors.New("a wake-up with something after it")
	errWakeValue = errors.New("a wake-up with a value that no row has")
)

// decodeWake returns the rows of a wake-up, at least one. Whatever is not as encodeWakes makes it is an error.
func decodeWake(body []byte) ([]store.Due, error) {
	if len(body) > maxWake {
		return nil, errWakeLong
	}
	var w wakeUp
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return nil, fmt.Errorf("a wake-up that cannot be read: %w", err)
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
		if r.ID < 1 || !due.Valid() || r.Rank < 0 || r.Rank > store.Rank(0) || clock.ValidateApplication(r.Application) != nil {
			return nil, errWakeValue
		}
		rows[i] = store.Due{ID: r.ID, NextTryTime: due, Rank: r.Rank, Shard: w.Shard, Application: r.Application}
	}
	return rows, nil
}
