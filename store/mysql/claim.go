package mysql

import (
	"cmp"
	"context"
	"sort"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// inlineBytes is the length of the longest payload that LockDue reads. Longer payloads are read only for rows that fit into the claim.
const inlineBytes = 4 << 10

// Claim takes due alarms. LockDue passes over locked rows and reads the content of the rings. ListPayloads reads the long payloads.
// TakeAlarms, LeaseAlarms or TakeOnce decides the claim.
func (d *Driver) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	ctx, cancel := d.deadline(ctx)
	defer cancel()
	held := &claim{s: d, ClaimRequest: r}
	err := d.calls.Replay(ctx, func() error { return held.run(ctx) })
	if err != nil {
		return nil, d.mapError("claim", err)
	}
	claimed := &store.Claim{Rings: held.rings, Ended: held.ended, Deferred: held.left, AtMostOnce: held.once}
	if len(held.rings) > 0 {
		claimed.Settler = held
	}
	return claimed, nil
}

// claim is a store.Settler: the rings of one claim, and the transaction of a held claim.
type claim struct {
	store.ClaimRequest
	s     *Driver
	tx    *tx // open transaction with the locks; nil for a two-phase claim
	rings []clock.Ring
	ended []store.EndedAlarm
	left  []int64
	once  []int64
}

// run makes the claim in a transaction. A held claim keeps the transaction open.
func (c *claim) run(ctx context.Context) (err error) {
	c.rings, c.left, c.once = nil, nil, nil
	if c.tx, err = c.s.begin(ctx, c.s.rings); err != nil {
		return err
	}
	if err := c.take(ctx); err != nil {
		c.tx.rollback(ctx)
		return err
	}
	if len(c.rings) > 0 && c.Lease == 0 && !c.AtMostOnce {
		return nil
	}
	t := c.tx
	c.tx = nil
	return t.commit(ctx)
}

// take runs the statements of the transaction.
func (c *claim) take(ctx context.Context) error {
	rows, candidates, err := c.lock(ctx)
	if err != nil || len(candidates) == 0 {
		return err
	}
	if err := c.write(ctx, rows); err != nil {
		return err
	}
	return c.ring(ctx, rows, candidates)
}

// lock returns locked rows that will ring, and holds no other locks. Each row belongs to the candidate at its index; both are in due order.
//
// Rows that end are committed first, so that their end does not depend on the outcome of the rings. If rows are left for a later claim,
// lock gives up all locks and locks only the taken rows again. Both cases are rare.
func (c *claim) lock(ctx context.Context) ([]*dueRow, []store.Candidate, error) {
	ids := c.IDs
	for {
		found, err := c.s.q.LockDue(ctx, c.tx, dbsqlc.LockDueParams{InlineBytes: inlineBytes, Ids: ids, Now: int64(c.Now), Build: store.BuildLevel()})
		if err != nil {
			return nil, nil, err
		}
		rows, candidates := make([]dueRow, len(found)), make([]store.Candidate, len(found))
		for i := range found {
			if rows[i], err = readDue(found[i]); err != nil {
				return nil, nil, err
			}
			candidates[i] = rows[i].Candidate
		}
		server := clock.MaxInstant // without rows the clock does not matter
		if len(rows) > 0 {
			server = rows[0].clock
		}
		judged := c.Judge(candidates, server)
		switch {
		case len(judged.Ended) > 0:
			err = c.end(ctx, &judged)
		case len(judged.Deferred)+len(judged.AtMostOnce)+judged.PassedOver > 0:
			c.left, c.once = append(c.left, judged.Deferred...), append(c.once, judged.AtMostOnce...)
			ids = engine.Column(judged.Taken, idOfCandidate)
			err = c.tx.rollbackAndBegin(ctx)
		default:
			return rowsOf(judged.Taken, rows), judged.Taken, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// rowsOf returns the row of each candidate. rows must be in the order of their ids.
func rowsOf(candidates []store.Candidate, rows []dueRow) []*dueRow {
	matching := make([]*dueRow, len(candidates))
	for i := range candidates {
		at, _ := sort.Find(len(rows), func(n int) int { return cmp.Compare(candidates[i].ID, rows[n].ID) })
		matching[i] = &rows[at]
	}
	return matching
}

// end writes the alarms that ended without a ring, and commits.
func (c *claim) end(ctx context.Context, judged *store.Judgment) error {
	if err := c.s.end(ctx, c.tx, c.Now, judged); err != nil {
		return err
	}
	if err := c.tx.commitAndBegin(ctx); err != nil {
		return err
	}
	c.ended = append(c.ended, judged.EndedAlarms()...)
	return nil
}

// dueRow is a row of LockDue: the candidate, and the other fields of its ring.
type dueRow struct {
	store.Candidate
	version     string        // the numbers from id to update_time, as LockDue packs them
	clock       clock.Instant // the server's clock when the statement began
	shard       int
	ackTimeout  int64 // milliseconds
	doubt       int64 // column in_doubt: 0 or 1 in a good row
	priority    int
	ringAt      clock.Instant
	retryPolicy string
	traceparent string
	contentType string
	payloadKind clock.PayloadKind
	payload     []byte // nil where the payload is longer than inlineBytes
}

// readDue reads a row of LockDue. A row that cannot be read has Unreadable set. It is an error if not even the id can be read.
func readDue(row string) (dueRow, error) {
	r, err := unpackDue(row)
	if err != nil {
		if r.ID == 0 {
			return r, err
		}
		bad := store.Candidate{ID: r.ID, Generation: anyGeneration, Unreadable: "the row cannot be read: a column is NULL"}
		return dueRow{clock: r.clock, Candidate: bad}, nil
	}
	v := engine.CheckedColumns{
		State: int64(r.State), PayloadKind: int64(r.payloadKind), Delivery: int64(r.Delivery), InDoubt: r.doubt, Generation: r.Generation, RingNo: int64(r.RingNo),
		RetryTimes: int64(r.RetryTimes), MaxRings: int64(r.MaxRings), AckTimeout: r.ackTimeout, RingAt: r.ringAt, LatestRingAt: r.LatestRingAt,
		NextTryTime: r.NextTryTime, RungAt: r.RungAt, UpdateTime: r.UpdateTime, PayloadLength: r.PayloadLength, RetryPolicy: r.retryPolicy,
	}
	r.Retry, r.Unreadable = v.Decode()
	return r, nil
}

// anyGeneration stands for the generation of a row that cannot be unpacked.
const anyGeneration = -1

// unpackDue unpacks a row in the column order of LockDue. The texts share the row's memory.
func unpackDue(row string) (r dueRow, err error) {
	p := packed{rest: row}
	r.clock = clock.Instant(p.number())
	version := p.rest
	r.ID = p.number()
	r.Generation = p.number()
	r.State = clock.State(p.number())
	r.RingNo = int(p.number())
	r.RetryTimes = int(p.number())
	r.doubt = p.number()
	r.InDoubt = r.doubt != 0
	r.RungAt = clock.Instant(p.number())
	r.NextTryTime = clock.Instant(p.number())
	r.UpdateTime = clock.Instant(p.number())
	r.version = strings.TrimSuffix(version[:len(version)-len(p.rest)], " ")
	r.shard = int(p.number())
	r.MaxRings = int(p.number())
	r.ackTimeout = p.number()
	r.AckTimeout = time.Duration(r.ackTimeout) * time.Millisecond
	r.Delivery = clock.DeliveryMode(p.number())
	r.priority = int(p.number())
	r.ringAt = clock.Instant(p.number())
	r.LatestRingAt = clock.Instant(p.number())
	r.Application, r.BusinessID = p.text(), p.text()
	r.LastError = p.text()
	r.ClaimID = p.text()
	r.retryPolicy = p.text()
	r.traceparent = p.text()
	r.contentType = p.text()
	r.payloadKind = clock.PayloadKind(p.number())
	r.PayloadLength = int(p.number())
	if r.PayloadLength <= inlineBytes {
		r.payload = []byte(p.bytes(r.PayloadLength))
	}
	r.Rank = store.Rank(r.priority)
	if p.rest != "" { // a column is missing
		p.fail()
	}
	return r, p.err
}

// end writes the alarms that ended without a ring, and their attempts (ExpireAlarms, KillAlarms, BuryAlarm).
func (d *Driver) end(ctx context.Context, t *tx, now clock.Instant, judged *store.Judgment) error {
	var expired, dead []int64
	var unreadable []*store.Ending
	for i := range judged.Ended {
		switch e := &judged.Ended[i]; e.Fate.Outcome.Kind {
		case clock.TooLate:
			expired = append(expired, e.ID)
		case clock.Unreadable:
			unreadable = append(unreadable, e)
		default:
			dead = append(dead, e.ID)
		}
	}
	n, err := d.expireAlarms(ctx, t, now, expired)
	if err == nil && len(dead) > 0 {
		var m int64
		m, err = d.q.KillAlarms(ctx, t, dbsqlc.KillAlarmsParams{Now: int64(now), Ids: dead})
		n += m
	}
	for i := 0; err == nil && i < len(unreadable); i++ {
		var m int64
		e := unreadable[i]
		m, err = d.q.BuryAlarm(ctx, t, dbsqlc.BuryAlarmParams{Reason: e.Fate.LastError, Now: int64(now), ID: e.ID, Generation: e.Generation})
		n += m
	}
	if err == nil && int(n) != len(judged.Ended) {
		return engine.ErrReplay // another transaction changed locked rows: the server ignores SKIP LOCKED
	}
	if err != nil || len(judged.Attempts) == 0 {
		return err
	}
	return d.addAttempts(ctx, t, judged.Attempts)
}

func (d *Driver) expireAlarms(ctx context.Context, t *tx, now clock.Instant, ids []int64) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return d.q.ExpireAlarms(ctx, t, dbsqlc.ExpireAlarmsParams{
		Doubt: clock.ReasonInDoubt, Unacknowledged: clock.ReasonUnacknowledged, Reason: clock.ReasonExpired, Now: int64(now), Ids: ids,
	})
}

// write runs the conditional UPDATE that decides the claim. It changes only the row versions that LockDue read: on a server that ignores
// locks another transaction may have changed a row since.
func (c *claim) write(ctx context.Context, rows []*dueRow) error {
	q, now, v := c.s.q, int64(c.Now), versionsOf(rows)
	db, common := lastRepeated{DBTX: c.tx, values: v.texts}, &v.common
	var n int64
	var err error
	switch {
	case c.AtMostOnce:
		n, err = q.TakeOnce(ctx, db, dbsqlc.TakeOnceParams{
			Build:   store.BuildLevel(),
			ClaimID: c.ClaimID, Now: now, Ids: v.ids, Generation: common.generation, OldState: common.state, RingNo: common.ringNo, RetryTimes: common.retryTimes,
			OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	case c.Lease > 0:
		n, err = q.LeaseAlarms(ctx, db, dbsqlc.LeaseAlarmsParams{
			Build:    store.BuildLevel(),
			ClaimEnd: int64(c.LeaseEnd()), Now: now, Ids: v.ids, Generation: common.generation, OldState: common.state, RingNo: common.ringNo,
			RetryTimes: common.retryTimes, OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	default:
		n, err = q.TakeAlarms(ctx, db, dbsqlc.TakeAlarmsParams{
			Build: store.BuildLevel(),
			Now:   now, ClaimID: c.ClaimID, Ids: v.ids, Generation: common.generation, OldState: common.state, RingNo: common.ringNo, RetryTimes: common.retryTimes,
			OldInDoubt: common.inDoubt, Unrung: common.unrung, Others: v.others,
		})
	}
	if err == nil && int(n) != len(rows) {
		err = engine.ErrReplay // another transaction changed locked rows: the server ignores SKIP LOCKED
	}
	return err
}

// ring makes the rings of the candidates. It reads long payloads separately.
func (c *claim) ring(ctx context.Context, rows []*dueRow, candidates []store.Candidate) error {
	long, err := c.longPayloads(ctx, candidates)
	if err != nil {
		return err
	}
	c.rings = make([]clock.Ring, len(candidates))
	for i := range candidates {
		candidate := &candidates[i]
		c.rings[i] = c.ringOf(rows[i])
		if candidate.PayloadLength > inlineBytes {
			c.rings[i].Payload = long[candidate.ID]
		}
	}
	return nil
}

// longPayloads returns the payloads that LockDue left out, by alarm id.
func (c *claim) longPayloads(ctx context.Context, candidates []store.Candidate) (map[int64][]byte, error) {
	var ids []int64
	for i := range candidates {
		if candidates[i].PayloadLength > inlineBytes {
			ids = append(ids, candidates[i].ID)
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	rows, err := c.s.q.ListPayloads(ctx, c.tx, ids)
	if err != nil {
		return nil, err
	}
	payloads := make(map[int64][]byte, len(rows))
	for i := range rows {
		payloads[rows[i].ID] = rows[i].Payload
	}
	return payloads, nil
}

// ringOf returns the ring of a row. Its payload is nil if LockDue left it out.
func (c *claim) ringOf(row *dueRow) clock.Ring {
	ring := c.Ring(&row.Candidate)
	ring.Shard, ring.RingAt, ring.Priority, ring.Traceparent = row.shard, row.ringAt, row.priority, row.traceparent
	ring.Payload, ring.PayloadKind, ring.ContentType = row.payload, row.payloadKind, row.contentType
	return ring
}

func idOfCandidate(c *store.Candidate) int64 { return c.ID }
