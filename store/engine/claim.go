package engine

import (
	"context"
	"fmt"
	"slices"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// ClaimTx is the transaction of one claim at READ COMMITTED. It fails with store.ErrOldBuild, or finds no row, if the
// database demands a newer build. A held claim settles in its own transaction (SettleTx).
type ClaimTx interface {
	SettleTx
	// LockDue locks the rows of the ids that are due at ClaimRequest.Now and neither finished nor paused. It returns
	// them by id, with rows whose state is unknown. It skips rows that are locked elsewhere.
	LockDue(ctx context.Context, ids []int64) ([]DueRow, error)
	// Clock returns the database's clock when the transaction read its first row. It has no meaning before.
	Clock() clock.Instant
	// EndAlarms writes the fates of judged.Ended and adds judged.Attempts. It may send its statements with the COMMIT.
	// It returns ErrReplay if it learns that a row has changed since LockDue.
	EndAlarms(ctx context.Context, judged *store.Judgment) error
	// Take writes ClaimRequest.RowAfterClaim to the rows, in one conditional UPDATE. It takes only rows that are still
	// as LockDue returned them, and returns how many these are. It sets the payloads that LockDue left out.
	Take(ctx context.Context, rows []*DueRow) (int, error)
}

// HoldingTx is a ClaimTx of an engine that holds claims (Traits.HoldsClaims). Its methods give up locks that the claim
// does not need.
type HoldingTx interface {
	ClaimTx
	// TakeFresh takes rows that have not changed since a set inserted them, whose payload has at most maxPayload bytes,
	// and that no transaction locks. It returns them in any order, as they were before, with their payloads. It does at
	// once what LockDue, Judge and Take do, except that it checks neither the database's clock nor whether a row is
	// readable. It takes any of these rows, also none. An engine that gains nothing from TakeFresh takes none.
	TakeFresh(ctx context.Context, maxPayload int) ([]DueRow, error)
	// CommitAndBegin commits, and begins the next transaction. Its errors mean what errors of Commit mean, but Rollback
	// must still be called.
	CommitAndBegin(ctx context.Context) error
	// RollbackAndBegin rolls back, and begins the next transaction.
	RollbackAndBegin(ctx context.Context) error
}

// Claim takes due alarms, with one transaction for each placement. Each placement has a part of MaxBytes. A claim whose
// transactions fail only in some placements takes the alarms of the others, and passes over the rest.
func (s *Store) Claim(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	if r.Kind() == store.Held && !s.HoldsClaims() {
		return nil, fmt.Errorf("%s: a claim without a timeout would be held, and this engine or server holds no claims",
			s.traits.Name)
	}
	placed := s.placements()
	parts := placed.split(len(r.IDs), func(i int) int { return placed.ofID(r.IDs[i]) })
	if len(parts) == 1 {
		return s.claimPart(ctx, r)
	}
	ctx, cancel := s.deadline(ctx)
	defer cancel()
	claims := make([]*claim, len(parts))
	errs := eachPart(parts, func(number int, p *part) error {
		own := r
		own.IDs, own.MaxBytes = pick(r.IDs, p.indexes), p.share(r.MaxBytes, len(r.IDs))
		c := &claim{ClaimRequest: own, s: s}
		claims[number] = c
		err := s.replayed(ctx, "claim", c.run)
		if err != nil {
			c.rings, c.deferred, c.atMostOnce, c.elsewhere, c.moved = nil, nil, nil, nil, nil
			c.counted = clock.OccurrenceCounts{}
		}
		return err
	})
	return mergeClaims(claims), allFailed(errs)
}

// claimPart takes due alarms of one placement.
func (s *Store) claimPart(ctx context.Context, r store.ClaimRequest) (*store.Claim, error) {
	c := &claim{ClaimRequest: r, s: s}
	if err := s.replayed(ctx, "claim", c.run); err != nil {
		return &store.Claim{Ended: c.ended}, err
	}
	claimed := &store.Claim{Rings: c.rings, Ended: c.ended, Deferred: c.deferred, AtMostOnce: c.atMostOnce,
		Elsewhere: c.elsewhere, Moved: c.moved, Counted: c.counted}
	if len(c.rings) > 0 {
		claimed.Settler = c
	}
	return claimed, nil
}

// claim is one claim. It becomes the store.Settler of its rings.
type claim struct {
	store.ClaimRequest
	s  *Store
	tx SettleTx // open transaction of a held claim; nil: the claim has committed

	rings      []clock.Ring
	claimed    []clock.RingRow    // rows of the rings as the last settlement wrote them; nil before it: as the claim wrote them
	ended      []store.EndedAlarm // committed, also by tries that failed later; and ending, when the claim succeeds
	ending     []store.EndedAlarm // written, and committed together with the rings
	deferred   []int64
	atMostOnce []int64
	elsewhere  []store.Elsewhere
	moved      []store.Due
	counted    clock.OccurrenceCounts
	attempts   []store.AlarmAttempt // of moved alarms
}

// run tries the claim once. The transaction of a held claim stays open if the claim has rings. After an error, or a
// panic, it is rolled back.
func (c *claim) run(ctx context.Context) error {
	c.rings, c.ending, c.deferred, c.atMostOnce, c.elsewhere, c.moved, c.attempts = nil, nil, nil, nil, nil, nil, nil
	c.counted = clock.OccurrenceCounts{}
	t, err := c.s.driver.BeginClaim(ctx, &c.ClaimRequest)
	if err != nil {
		return err
	}
	kept := false
	defer func() {
		if !kept {
			t.Rollback(ctx)
		}
	}()
	if err := c.take(ctx, t); err != nil {
		return err
	}
	kept = true
	if c.Kind() == store.Held && len(c.rings) > 0 {
		c.tx = t
	} else if err := t.Commit(ctx); err != nil {
		return err
	}
	c.ended = append(c.ended, c.ending...)
	return nil
}

// take locks and judges the rows, takes the rows that ring, and makes their rings.
func (c *claim) take(ctx context.Context, t ClaimTx) error {
	taken, fresh, err := c.lockRows(ctx, t)
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	if len(taken) > 0 {
		n, err := t.Take(ctx, Column(taken, func(a *dueAlarm) *DueRow { return a.row }))
		if err == nil && n != len(taken) {
			err = ErrReplay // another transaction changed locked rows: the server ignores SKIP LOCKED
		}
		if err != nil {
			return fmt.Errorf("take: %w", err)
		}
		if taken, err = c.move(ctx, t, taken); err != nil {
			return fmt.Errorf("move: %w", err)
		}
	}
	if len(fresh) > 0 {
		taken = append(taken, fresh...)
		slices.SortFunc(taken,
			func(a, b dueAlarm) int { return a.candidate.Position().Compare(b.candidate.Position()) })
	}
	c.rings = make([]clock.Ring, len(taken))
	for i, a := range taken {
		c.rings[i] = c.Ring(a.candidate)
		a.row.addTo(&c.rings[i])
	}
	return nil
}

// move writes the repeating alarms among the taken rows that do not ring now, and those that ring another occurrence
// than the stored one. It returns the rows that ring.
func (c *claim) move(ctx context.Context, t ClaimTx, taken []dueAlarm) ([]dueAlarm, error) {
	for i := range taken {
		c.counted.Add(taken[i].candidate.Counted)
	}
	moves := c.Moves(Column(taken, func(a *dueAlarm) *store.Candidate { return a.candidate }))
	if len(moves) == 0 {
		return taken, nil
	}
	var ringing []dueAlarm
	for _, a := range taken {
		switch row := a.candidate.Moved; {
		case row == nil:
			ringing = append(ringing, a)
		case row.NextTryTime == clock.NoInstant: // over, or paused
			c.ending = append(c.ending,
				store.EndedAlarm{Key: a.candidate.Key, ID: a.row.ID, State: row.State, Reason: row.LastError})
		default:
			c.moved = append(c.moved, store.Due{
				ID: a.row.ID, NextTryTime: row.NextTryTime, Rank: a.candidate.Rank, Shard: int(a.row.Shard),
				Application: a.row.Application,
			})
		}
	}
	return ringing, t.Settle(ctx, moves, c.attempts)
}

// lockRows returns the locked rows to take, in due order, and the fresh rows, which are taken already, in any order. On
// an engine that holds claims no other row stays locked.
func (c *claim) lockRows(ctx context.Context, t ClaimTx) (locked, fresh []dueAlarm, err error) {
	if holding, holds := t.(HoldingTx); holds && !c.EndOnly {
		return c.lockOnlyTaken(ctx, holding)
	}
	rows, judged, err := c.judge(ctx, t, c.IDs)
	if err != nil {
		return nil, nil, err
	}
	c.ending, c.deferred, c.atMostOnce, c.elsewhere = judged.EndedAlarms(), judged.Deferred, judged.AtMostOnce, judged.Elsewhere
	c.attempts = judged.MovedAttempts
	if len(judged.Ended) > 0 {
		err = t.EndAlarms(ctx, &judged)
	}
	return dueAlarmsOf(judged.Taken, rows), nil, err
}

// lockOnlyTaken locks the rows that ring, and gives up all other locks. Rows that end are committed first, so that
// their end does not depend on the outcome of the rings. If rows are left for a later claim, lockOnlyTaken gives up all
// locks and locks only the rows to take again. In both cases it first gives up the fresh rows and judges them too. Both
// cases are rare.
func (c *claim) lockOnlyTaken(ctx context.Context, t HoldingTx) (locked, fresh []dueAlarm, err error) {
	if fresh, err = c.takeFresh(ctx, t); err != nil {
		return nil, nil, err
	}
	for ids := c.without(fresh); len(ids) > 0; {
		rows, judged, err := c.judge(ctx, t, ids)
		if err != nil {
			return nil, nil, err
		}
		leaves := len(judged.Deferred)+len(judged.AtMostOnce)+len(judged.Elsewhere)+judged.PassedOver > 0 ||
			c.exceeds(fresh, judged.Taken)
		switch {
		case len(fresh) > 0 && (leaves || len(judged.Ended) > 0):
			ids, fresh = c.IDs, nil
			err = t.RollbackAndBegin(ctx)
		case len(judged.Ended) > 0:
			err = c.end(ctx, t, &judged)
		case leaves:
			c.deferred, c.atMostOnce = append(c.deferred, judged.Deferred...), append(c.atMostOnce,
				judged.AtMostOnce...)
			c.elsewhere = append(c.elsewhere, judged.Elsewhere...)
			ids = Column(judged.Taken, func(taken *store.Candidate) int64 { return taken.ID })
			err = t.RollbackAndBegin(ctx)
		default:
			c.attempts = judged.MovedAttempts
			return dueAlarmsOf(judged.Taken, rows), fresh, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return nil, fresh, nil
}

// judge locks the due rows of the ids and judges them.
func (c *claim) judge(ctx context.Context, t ClaimTx, ids []int64) ([]DueRow, store.Judgment, error) {
	rows, err := t.LockDue(ctx, ids)
	if err != nil {
		return nil, store.Judgment{}, err
	}
	return rows, c.Judge(Column(rows, (*DueRow).candidate), t.Clock()), nil
}

// end writes the alarms that ended without a ring, and commits.
func (c *claim) end(ctx context.Context, t HoldingTx, judged *store.Judgment) error {
	if err := t.EndAlarms(ctx, judged); err != nil {
		return err
	}
	if err := t.CommitAndBegin(ctx); err != nil {
		return err
	}
	c.ended = append(c.ended, judged.EndedAlarms()...)
	return nil
}

// takeFresh takes fresh rows whose payload is not larger than an equal share of MaxBytes. It gives up all of them if
// one had to wait for a lock, cannot be read, is not due by the database's clock, or names an unexpected target. They
// are then judged like the other rows.
func (c *claim) takeFresh(ctx context.Context, t HoldingTx) ([]dueAlarm, error) {
	if c.Kind() == store.Once || c.InDoubtOnly || len(c.IDs) == 0 {
		return nil, nil
	}
	rows, err := t.TakeFresh(ctx, c.MaxBytes/len(c.IDs))
	if err != nil && c.s.driver.Classify(err) == LockTimeout {
		return nil, t.RollbackAndBegin(ctx)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	candidates := Column(rows, (*DueRow).candidate)
	unreadable := func(candidate store.Candidate) bool { return candidate.Unreadable != "" }
	if slices.ContainsFunc(candidates, unreadable) || c.PassesOverAny(candidates, t.Clock()) {
		return nil, t.RollbackAndBegin(ctx)
	}
	fresh := make([]dueAlarm, len(rows))
	for i := range rows {
		fresh[i] = dueAlarm{&rows[i], &candidates[i]}
	}
	return fresh, nil
}

// exceeds reports whether fresh rows together with other rows have more payload than MaxBytes.
func (c *claim) exceeds(fresh []dueAlarm, taken []store.Candidate) bool {
	size := 0
	for _, a := range fresh {
		size += a.candidate.PayloadLength
	}
	for i := range taken {
		size += taken[i].PayloadLength
	}
	return len(fresh) > 0 && size > c.MaxBytes
}

// without returns the ids of the claim except the ids of the fresh rows.
func (c *claim) without(fresh []dueAlarm) []int64 {
	switch len(fresh) {
	case 0:
		return c.IDs
	case len(c.IDs):
		return nil
	}
	taken := make(map[int64]bool, len(fresh))
	for _, a := range fresh {
		taken[a.row.ID] = true
	}
	return slices.DeleteFunc(slices.Clone(c.IDs), func(id int64) bool { return taken[id] })
}
