package engine

import (
	"context"
	"math"

	"github.com/clockd/clockd/clock"
)

// ActRow is a row of the table audit. The row types of each engine's generated code convert to it.
type ActRow struct {
	ID          int64
	DoneAt      int64
	Actor       string
	Token       string
	Origin      string
	Action      string
	Application string
	Subject     string
	StateBefore string
	StateAfter  string
	RequestID   string
}

// NewActRow is a row to insert: the database gives its id.
type NewActRow struct {
	DoneAt      int64
	Actor       string
	Token       string
	Origin      string
	Action      string
	Application string
	Subject     string
	StateBefore string
	StateAfter  string
	RequestID   string
}

func newActRow(a *clock.Act) NewActRow {
	return NewActRow{
		DoneAt: int64(a.At), Actor: a.Name, Token: a.Token, Origin: a.From, Action: a.Action,
		Application: a.Application, Subject: a.Subject,
		StateBefore: a.Before, StateAfter: a.After, RequestID: a.RequestID,
	}
}

func (r *ActRow) act() clock.Act {
	return clock.Act{
		ID: r.ID, At: clock.Instant(r.DoneAt),
		Actor:  clock.Actor{Name: r.Actor, Token: r.Token, From: r.Origin, RequestID: r.RequestID},
		Action: r.Action, Application: r.Application, Subject: r.Subject, Before: r.StateBefore, After: r.StateAfter,
	}
}

// AddActs adds acts in a transaction of their own.
func (s *Store) AddActs(ctx context.Context, acts []clock.Act) error {
	return s.replayed(ctx, "add acts", func(ctx context.Context) error {
		return InTx(ctx, s.driver.BeginSettings, func(t SettingsTx) error { return addActs(ctx, t, acts...) })
	})
}

// addActs records acts in the transaction.
func addActs(ctx context.Context, tx ActsTx, acts ...clock.Act) error {
	if len(acts) == 0 {
		return nil
	}
	return tx.AddActs(ctx, Column(acts, newActRow))
}

// Acts returns acts, the newest first.
func (s *Store) Acts(ctx context.Context, q clock.ActsQuery) (acts []clock.Act, err error) {
	if q.BeforeID == 0 {
		q.BeforeID = math.MaxInt64
	}
	err = s.read(ctx, "read the audit", func(ctx context.Context) error {
		rows, err := s.driver.ReadActs(ctx, &q)
		acts = Column(rows, (*ActRow).act)
		return err
	})
	return acts, err
}

// PurgeActs deletes acts from before an instant, at most limit.
func (s *Store) PurgeActs(ctx context.Context, before clock.Instant, limit int) (deleted int, err error) {
	err = s.replayed(ctx, "purge the audit", func(ctx context.Context) (err error) {
		deleted, err = s.driver.DeleteActs(ctx, before, min(limit, maxPurge))
		return err
	})
	return deleted, err
}
