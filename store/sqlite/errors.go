package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"modernc.org/sqlite"
	lib "modernc.org/sqlite/lib"

	"github.com/clockd/clockd/clock"

	"github.com/clockd/clockd/store/engine"
)

// primaryCode is the mask of the primary result code within an extended result code.
const primaryCode = 0xff

// Classify returns the class of an error. No error is a definite rollback that a repetition would avoid: a transaction
// holds the file's lock.
func (d *Driver) Classify(err error) engine.Class {
	failed, is := errors.AsType[*sqlite.Error](err)
	if is && !hasCode(failed, lib.SQLITE_BUSY, lib.SQLITE_LOCKED, lib.SQLITE_INTERRUPT) || errors.Is(err, errNoFile) {
		return engine.Refused
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return engine.Misconfigured
	}
	return engine.Unavailable
}

// DropConnections does nothing: a file has no other server.
func (d *Driver) DropConnections() {}

// commitError maps the error of a COMMIT. The outcome is unconfirmed, unless certainly nothing was committed.
func commitError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil && errors.Is(err, ctx.Err()) { // database/sql checked ctx before it sent the COMMIT
		return err
	}
	if errors.Is(err, sql.ErrTxDone) { // ctx has ended, and database/sql has rolled back
		return errors.Join(err, ctx.Err())
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
