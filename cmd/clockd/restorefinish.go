package main

import (
	"context"
	"errors"
	"os/signal"
	"syscall"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/recovery"
)

// restoreFinishCommand prepares a database that was restored from a backup.
type restoreFinishCommand struct{ archiveFlags }

// Help returns the text after the flags.
func (*restoreFinishCommand) Help() string {
	return "Between the backup and the loss of the database clockd rang alarms and set others. With this command no message id of that time is given to another " +
		"ring: new alarms get ids far above the highest one, and changed alarms a higher generation. Alarms that are due may have rung: they ring again under the " +
		"same message id, and alarms that ring at most once do not ring again. Run it after each restore, on every engine, while no node works on the database. " +
		"It may be repeated. See docs/backup.md."
}

// Run prepares the database.
func (r *restoreFinishCommand) Run() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	st, err := r.openArchive(ctx)
	if err != nil {
		return err
	}
	return errors.Join(r.finish(ctx, st), st.Close())
}

func (r *restoreFinishCommand) finish(ctx context.Context, st store.Store) error {
	db, is := st.(recovery.Database)
	if !is {
		return errNoArchive
	}
	log, now := r.logger(), recovery.Result{}
	report := every(progressInterval,
		func() { log.Info("finishing the restore", "in_doubt", now.InDoubt, "raised", now.Raised) })
	done, err := recovery.Finish(ctx, db, func(so recovery.Result) {
		now = so
		report()
	})
	if err != nil {
		return err
	}
	log.Info("the restored database is ready", "skipped_ids", store.SkippedIDs, "in_doubt", done.InDoubt,
		"at_most_once", done.AtMostOnce,
		"ended", done.Ended, "raised", done.Raised)
	return nil
}
