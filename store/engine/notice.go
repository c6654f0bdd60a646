package engine

import (
	"context"

	"github.com/clockd/clockd/store"
)

// Notices is implemented by drivers of databases that pass messages between sessions. See store.Notifier.
type Notices interface {
	// SendNotices sends all bodies, at least one, or none.
	SendNotices(ctx context.Context, bodies []string) error
	// ReceiveNotices receives on a connection of its own until ctx ends or the connection fails.
	ReceiveNotices(ctx context.Context, ready func(), heard func(body string)) error
}

var _ store.Notifier = (*NotifyingStore)(nil)

// NotifyingStore is the Store of a driver with Notices.
type NotifyingStore struct {
	*Store
	notices Notices
}

// NewNotifying returns the Store of a driver with Notices.
func NewNotifying[D interface {
	Driver
	Notices
}](cfg Config, deps Deps, d D) (*NotifyingStore, error) {
	s, err := New(cfg, deps, d)
	if err != nil {
		return nil, err
	}
	return &NotifyingStore{Store: s, notices: d}, nil
}

// Notify sends all bodies, or none.
func (s *NotifyingStore) Notify(ctx context.Context, bodies []string) error {
	if len(bodies) == 0 {
		return nil
	}
	return s.call(ctx, "notify", func(ctx context.Context) error { return s.notices.SendNotices(ctx, bodies) })
}

// Listen receives messages until ctx ends or the connection fails.
func (s *NotifyingStore) Listen(ctx context.Context, ready func(), heard func(body string)) error {
	err := s.notices.ReceiveNotices(ctx, ready, heard)
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the end of ctx is the normal end
	}
	return s.mapError(ctx, "listen", err)
}
