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

// primaryCode is the mask of the primary result code within an extended result code.
const primaryCode = 0xff

// mapError wraps err with the failed operation, gives it a kind of package clock, and counts it. It adds the error of an ended ctx, because
// the error of an interrupted statement does not name it.
func (s *Store) mapError(ctx context.Context, doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, mapped := errors.AsType[*clock.Error](err); mapped {
		return s.metrics.CountError(err)
	}
	if ended := ctx.Err(); ended != nil && !errors.Is(err, ended) {
		err = errors.Join(ended, err)
	}
	return s.metrics.CountError(clock.Unavailable(fmt.Errorf("sqlite: %s: %s: %w", s.path, doing, err)))
}

// migrationError maps the error of a migration. A refusal that would only come again is not mapped to ErrUnavailable.
func (s *Store) migrationError(ctx context.Context, err error) error {
	failed, refused := errors.AsType[*sqlite.Error](err)
	if refused && !hasCode(failed, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_INTERRUPT) {
		return fmt.Errorf("sqlite: %s: migrate: %w", s.path, err)
	}
	return s.mapError(ctx, "migrate", err)
}

// commitError maps the error of a COMMIT. The outcome is unconfirmed, unless certainly nothing was committed.
func commitError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) { // database/sql checked ctx before it sent the COMMIT
		return err
	}
	if hasCode(err, lib.SQLITE_BUSY, lib.SQLITE_FULL, lib.SQLITE_CONSTRAINT, lib.SQLITE_READONLY) {
		return err
	}
	return clock.Unconfirmed(fmt.Errorf("sqlite: commit: %w", err))
}

// hasCode reports whether err is a SQLite error whose primary result code is listed.
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
