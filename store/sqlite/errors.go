package sqlite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/clock"
)

// primaryCode masks the primary result code of an extended one.
const primaryCode = 0xff

// mapError returns err as a kind of package clock, with what was being done, and counts it. An interrupted statement does not name the
// context that ended, so it is added.
func (s *Store) mapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return s.metrics.Failed(err)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err)
	}
	return s.metrics.Failed(clock.Unavailable(fmt.Errorf("sqlite: %s: %s: %w", s.path, doing, err)))
}

// commitError judges what COMMIT came to: unconfirmed unless it is certain that nothing was committed.
func commitError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) { // database/sql looked before it began
		return err
	}
	if hasCode(err, lib.SQLITE_BUSY, lib.SQLITE_FULL, lib.SQLITE_CONSTRAINT, lib.SQLITE_READONLY) {
		return err
	}
	return clock.Unconfirmed(fmt.Errorf("sqlite: commit: %w", err))
}

// hasCode reports whether err is SQLite's, with one of the primary result codes.
func hasCode(err error, codes ...int) bool {
	failed, is := errors.AsType[*sqlite.Error](err)
	return is && slices.Contains(codes, failed.Code()&primaryCode)
}

func unknownAlarm(k clock.Key) error {
	return &clock.Error{
		Kind: clock.ErrNotFound, Code: clock.CodeUnknownAlarm,
		Detail: fmt.Sprintf("application %q has no alarm %q", k.Application, k.BusinessID),
	}
}
