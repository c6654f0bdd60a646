package postgresql

import (
	"context"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// ReadDurability judges the settings of a session that writes (ReadDurability).
func (d *Driver) ReadDurability(ctx context.Context) ([]store.Finding, error) {
	v, err := d.q.ReadDurability(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	return []store.Finding{
		engine.SettingFinding("fsync", v.Fsync, v.Fsync == "on", "written data reaches the disk",
			"the whole database may be lost when the server's machine dies: set it to on"),
		synchronousCommitFinding(v.SynchronousCommit),
		engine.SettingFinding("full_page_writes", v.FullPageWrites, v.FullPageWrites == "on",
			"after a crash of the machine, half-written pages are repaired",
			"after a crash of the machine, half-written pages are lost with all their rows, unless the file system writes whole pages"),
		standbyFinding(v.SynchronousStandbyNames, v.SynchronousCommit),
		engine.IsolationFinding(v.Isolation),
	}, nil
}

func synchronousCommitFinding(value string) store.Finding {
	return engine.SettingFinding("synchronous_commit", value, value != "off", "a commit is on the server's disk before the server confirms it",
		"confirmed commits of about the last second are lost when the server dies: set it to on for this role or database")
}

// standbyFinding says which commits a failover may lose. It is safe without standbys too: many users deliberately have a single server.
func standbyFinding(names, commit string) store.Finding {
	f := store.Finding{Name: "synchronous_standby_names", Value: names, Safe: true, Detail: "a commit is at a standby before the server confirms it"}
	switch {
	case names == "":
		f.Value = "none"
		f.Detail = "commits do not wait for a standby: a failover may lose the last confirmed commits"
	case commit == "local" || commit == "off":
		f.Detail = "there are synchronous standbys, but with synchronous_commit = " + commit + " commits do not wait for them: a failover may lose the last confirmed commits"
	}
	return f
}
