package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/clockd/clockd/store"
)

// The statements of a backup.
const (
	copyDatabase = "VACUUM INTO ?"
	checkCopy    = "PRAGMA quick_check(1)"
)

// Backup copies the database to a new file, as of one moment, while other processes use it. The file appears under its
// name when it is complete, checked and on disk. Backup reads the database in one transaction, so the write-ahead log
// grows meanwhile.
func Backup(ctx context.Context, cfg Config, to string) error {
	path, err := cfg.path()
	if err != nil {
		return err
	}
	if _, err := os.Stat(path); err != nil { // SQLite would create it
		return fmt.Errorf("sqlite: %w", err)
	}
	if _, err := os.Lstat(to); !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("sqlite: %s exists already; a backup replaces no file", to)
	}
	dir, err := os.MkdirTemp(filepath.Dir(to), ".clockd-backup-")
	if err != nil {
		return fmt.Errorf("sqlite: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	unnamed := filepath.Join(dir, "copy")
	if err := copyTo(ctx, path, unnamed); err != nil {
		return fmt.Errorf("sqlite: copy %s: %w", path, err)
	}
	if err := finishCopy(ctx, unnamed); err != nil {
		return fmt.Errorf("sqlite: the copy of %s: %w", path, err)
	}
	if err := os.Link(unnamed, to); err != nil { // fails if the name exists by now
		return fmt.Errorf("sqlite: %w", err)
	}
	return syncDirectory(filepath.Dir(to))
}

func copyTo(ctx context.Context, path, to string) error {
	return withFile(path, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, copyDatabase, to)
		return err
	})
}

// finishCopy checks the copy, skips ids (store.SkippedIDs), so that the copy is safe before its recovery too, and
// writes the file to disk.
func finishCopy(ctx context.Context, path string) error {
	err := withFile(path, func(db *sql.DB) error {
		var result string
		if err := db.QueryRowContext(ctx, checkCopy).Scan(&result); err != nil {
			return err
		}
		if result != "ok" {
			return fmt.Errorf("it is damaged: %s", result)
		}
		return skipIDsIn(ctx, db, store.SkippedIDs)
	})
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}

// withFile runs do on a connection to the file.
func withFile(path string, do func(db *sql.DB) error) error {
	db, err := open(path, []string{busyPragma}, 1)
	if err != nil {
		return err
	}
	return errors.Join(do(db), db.Close())
}

func syncDirectory(path string) error {
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
