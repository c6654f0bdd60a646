package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os/signal"
	"strings"
	"syscall"

	"github.com/clockd/clockd/store/sqlite"
)

// backupCommand copies a SQLite database while clockd runs on it.
type backupCommand struct {
	To string `arg:"" placeholder:"FILE" help:"New file for the copy."`
	databaseFlags
}

// Help returns the text after the flags.
func (*backupCommand) Help() string {
	return "The copy is consistent: it has the database as of one moment, while clockd goes on. To restore it, stop clockd, put the file in the place of the " +
		"database, and remove the files FILE-wal and FILE-shm beside it. A server has tools of its own; the error names them."
}

// Run makes the backup.
func (b *backupCommand) Run() error {
	if err := checkDatabase(b.databaseFlags, spareRingConns); err != nil {
		return &configError{reasons: err}
	}
	if advice := serverBackup(b.databaseFlags, b.To); advice != "" {
		return errors.New(advice)
	}
	if err := b.checkExists(); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	cfg := sqlite.DefaultConfig()
	cfg.URL = b.DatabaseURL
	if err := sqlite.Backup(ctx, cfg, b.To); err != nil {
		return err
	}
	_, _ = fmt.Fprintf(stdout, "%s has the database %s as of now\n", b.To, b.name())
	return nil
}

// serverBackup says how to make a backup of a server's database; "" for SQLite.
func serverBackup(flags databaseFlags, to string) string {
	scheme, _, _ := strings.Cut(flags.DatabaseURL, ":")
	host, port, user, database := "HOST", "", "USER", "DATABASE"
	if u, err := url.Parse(flags.DatabaseURL); err == nil {
		host, port, user, database = u.Hostname(), u.Port(), u.User.Username(), strings.TrimPrefix(u.Path, "/")
	}
	portFlag := func(flag string) string {
		if port == "" {
			return ""
		}
		return " " + flag + port
	}
	switch scheme {
	case "mysql", "mariadb":
		return fmt.Sprintf("clockd backup copies SQLite files. For this server use its own tool, which reads one moment without a lock:\n"+
			"  mariadb-dump --single-transaction --host=%s%s --user=%s --password %s >%s\n"+
			"(mysqldump on MySQL). Without loss up to the last commit: mariadb-backup, with the binary log. See docs/backup.md",
			host, portFlag("--port="), user, database, to)
	case "postgres", "postgresql":
		return fmt.Sprintf("clockd backup copies SQLite files. For this server use its own tool, which reads one moment without a lock:\n"+
			"  pg_dump --format=custom --host=%s%s --username=%s --file=%s %s\n"+
			"Without loss up to the last commit: pg_basebackup, with archived WAL. See docs/backup.md",
			host, portFlag("--port="), user, to, database)
	}
	return ""
}
