package mysql

import (
	"strconv"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// inlineBytes is the length of the longest payload that LockDue reads. Longer payloads are read only for rows that fit into the claim.
const inlineBytes = 4 << 10

// anyGeneration stands for the generation of a row that cannot be unpacked.
const anyGeneration = -1

// readDue reads a row of LockDue and the server's clock. It is an error if not even the id can be read.
func readDue(row string) (engine.DueRow, clock.Instant, error) {
	r, server, err := unpackDue(row)
	if err == nil || r.ID == 0 {
		return r, server, err
	}
	return engine.DueRow{
		DueColumns: engine.DueColumns{ID: r.ID, Generation: anyGeneration}, Unreadable: "the row cannot be read: a column is NULL",
	}, server, nil
}

// unpackDue unpacks a row in the column order of LockDue. The texts share the row's memory.
func unpackDue(row string) (r engine.DueRow, server clock.Instant, err error) {
	p := packed{rest: row}
	server = clock.Instant(p.number())
	r.ID = p.number()
	r.Generation = p.number()
	r.State = p.number()
	r.RingNo = p.number()
	r.RetryTimes = p.number()
	r.InDoubt = p.number()
	r.RungAt = engine.ToNull(clock.Instant(p.number()))
	r.NextTryTime = engine.ToNull(clock.Instant(p.number()))
	r.UpdateTime = p.number()
	r.Shard = p.number()
	r.MaxRings = p.number()
	r.AckTimeout = p.number()
	r.Delivery = p.number()
	r.Priority = p.number()
	r.TargetRingAt = p.number()
	r.LatestRingAt = engine.ToNull(clock.Instant(p.number()))
	r.Application, r.BusinessID = p.text(), p.text()
	r.LastError = p.text()
	r.ClaimID = p.text()
	r.RetryPolicy = p.text()
	r.Traceparent = p.text()
	r.ContentType = p.text()
	r.PayloadKind = p.number()
	r.PayloadLength = p.number()
	if r.PayloadLength <= inlineBytes {
		r.Payload = []byte(p.bytes(int(r.PayloadLength)))
	}
	r.DueRank = int64(store.Rank(int(r.Priority)))
	if p.rest != "" { // a column is missing
		p.fail()
	}
	return r, server, p.err
}

// versionText returns the numbers from id to update_time as LockDue packs them.
func versionText(r *engine.DueRow) string {
	b := strconv.AppendInt(nil, r.ID, 10)
	for _, n := range [...]int64{
		r.Generation, r.State, r.RingNo, r.RetryTimes, r.InDoubt, int64(engine.FromNull(r.RungAt)), int64(engine.FromNull(r.NextTryTime)), r.UpdateTime,
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(b)
}
