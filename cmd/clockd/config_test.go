package main

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRingBatchIsLargerOnSQLiteUnlessConfigured also checks that the workers' batches must fit into the heap.
func TestRingBatchIsLargerOnSQLiteUnlessConfigured(t *testing.T) {
	t.Parallel()
	file := "sqlite:" + filepath.Join(t.TempDir(), "clockd.db")
	const mariadb, postgresql = "mysql://u:p@127.0.0.1:3306/clockd", "postgres://u:p@127.0.0.1:5432/clockd"
	for _, c := range []struct {
		name, url     string
		batch, memory int
		want          int // 0: refused
	}{
		{"mariadb", mariadb, 0, 100_000, 300},
		{"postgresql", postgresql, 0, 100_000, 300},
		{"sqlite", file, 0, 100_000, 500},
		{"said", file, 50, 100_000, 50},
		{"negative", file, -1, 100_000, 0},
		{"more than memory", file, 0, 1499, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg, err := newConfig(serveFlags{
				databaseFlags: databaseFlags{DatabaseURL: c.url}, Listen: "127.0.0.1:0", Connections: 10,
				Retention: time.Hour, MaxPayload: 1024,
				WriteLanes: 2, RingWorkers: 3, RingBatch: c.batch, HeapEntries: c.memory,
				PreloadAhead:    30 * time.Second,
				accessFlags:     accessFlags{SessionLifetime: time.Hour},
				WebhookInFlight: 1024, WebhookHostConcurrency: 128, WebhookConnectTimeout: 5 * time.Second,
			})
			if refused := err != nil; refused != (c.want == 0) {
				t.Fatalf("error %v, want %d", err, c.want)
			}
			if err == nil && cfg.ring.BatchRows != c.want {
				t.Errorf("%d alarms a batch, want %d", cfg.ring.BatchRows, c.want)
			}
		})
	}
}

// TestShownURLHasNoPassword shows database URLs of every form. No part of the password may appear.
func TestShownURLHasNoPassword(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"mysql://user:hidden@db:3306/clockd?x=hidden": "mysql://user@db:3306/clockd",
		"postgres://user:hidden@db/clockd":            "postgres://user@db/clockd",
		"postgres://db/clockd?user=u&password=hidden": "postgres://db/clockd",
		"postgres:host=db password=hidden":            "(URL not shown)",
		"postgres:host=db%20password=hidden":          "(URL not shown)",
		"postgresql:///clockd?password=hidden":        "(URL not shown)",
		"mysql:user:hidden@tcp(db)/clockd":            "(URL not shown)",
		"postgres://user:12/hidden@db/clockd":         "(URL not shown)",
		"postgres://user:12#hidden@db/clockd":         "(URL not shown)",
		"mysql://user:%zzhidden@db/clockd":            "(URL not shown)",
		"sqlite:/var/lib/clockd.db":                   "sqlite:/var/lib/clockd.db",
	} {
		if got := shownURL(raw); got != want {
			t.Errorf("%s is shown as %s, want %s", raw, got, want)
		}
	}
}

// TestRefusedSettingsArePrintedWithoutSecrets starts clockd with invalid settings and reads its output.
func TestRefusedSettingsArePrintedWithoutSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, setting, reason string }{
		{"keyword form", "CLOCKD_DATABASE_URL=postgres:host=127.0.0.1 password=hidden",
			"must be of the form postgres://"},
		{"keyword form, encoded", "CLOCKD_DATABASE_URL=postgres:host=127.0.0.1%20password=hidden",
			"must be of the form postgres://"},
		{"slash in the password", "CLOCKD_DATABASE_URL=postgres://user:12/hidden@127.0.0.1/clockd",
			"must be of the form postgres://"},
		{"driver's form", "CLOCKD_DATABASE_URL=mysql:user:hidden@tcp(127.0.0.1)/clockd", "must be mysql://"},
		{"fallback to plaintext", "CLOCKD_DATABASE_URL=mysql://user:hidden@127.0.0.1/clockd?tls=preferred",
			"tls=preferred"},
		{"distributed mode of SQLite", "CLOCKD_DATABASE_MODE=distributed", "must begin with postgres://"},
		{"long node name", "CLOCKD_NODE=" + strings.Repeat("n", 129), "from 1 to 128"},
		{"intake without a broker", "CLOCKD_INTAKE_QUEUE=delayed", "no AMQP URL"},
		{"no listen address", "CLOCKD_LISTEN=", "CLOCKD_LISTEN"},
	} {
		out, err := command([]string{c.setting}, "serve").CombinedOutput()
		exit, is := errors.AsType[*exec.ExitError](err)
		if !is || exit.ExitCode() != exitUsage {
			t.Errorf("%s: %v, want exit code %d", c.name, err, exitUsage)
		}
		if strings.Contains(string(out), "hidden") || !strings.Contains(string(out), c.reason) {
			t.Errorf("%s prints:\n%s", c.name, out)
		}
	}
}
