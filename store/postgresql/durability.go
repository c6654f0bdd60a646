package postgresql

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/postgresql/internal/dbsqlc"
)

// ReadDurability judges the settings of a session that writes (ReadDurability).
func (d *Driver) ReadDurability(ctx context.Context) ([]store.Finding, error) {
	v, err := d.q.ReadDurability(ctx, d.pool)
	if err != nil {
		return nil, err
	}
	found := findings(&v)
	if !d.cfg.Distributed {
		return found, nil
	}
	return d.withWorkers(ctx, found)
}

// findings judges the settings of one server.
func findings(v *dbsqlc.ReadDurabilityRow) []store.Finding {
	return []store.Finding{
		engine.SettingFinding("fsync", v.Fsync, v.Fsync == "on", "written data reaches the disk",
			"the whole database may be lost when the server's machine dies: set it to on"),
		synchronousCommitFinding(v.SynchronousCommit),
		engine.SettingFinding("full_page_writes", v.FullPageWrites, v.FullPageWrites == "on",
			"after a crash of the machine, half-written pages are repaired",
			"after a crash of the machine, half-written pages are lost with all their rows, unless the file system writes whole pages"),
		standbyFinding(v.SynchronousStandbyNames, v.SynchronousCommit),
		engine.IsolationFinding(v.Isolation),
	}
}

// sqlWorkerSettings reads the settings of each worker as a JSON array, in the order of findings.
const sqlWorkerSettings = `SELECT concat(n.nodename, ':', n.nodeport), r.success, r.result
FROM run_command_on_workers($$SELECT json_build_array(current_setting('fsync'), current_setting('synchronous_commit'),
  current_setting('full_page_writes'), current_setting('synchronous_standby_names'))$$) r
JOIN pg_dist_node n ON n.nodename = r.nodename AND n.nodeport = r.nodeport
ORDER BY 1`

// withWorkers returns the findings of the coordinator. A finding about a worker that is not safe replaces the
// coordinator's. A worker that does not answer is passed over: it takes no commits either.
func (d *Driver) withWorkers(ctx context.Context, found []store.Finding) ([]store.Finding, error) {
	rows, err := d.pool.Query(ctx, sqlWorkerSettings)
	if err != nil {
		return nil, err
	}
	type workerSettings struct {
		Address string
		Success bool
		Result  string
	}
	workers, err := pgx.CollectRows(rows, pgx.RowToStructByPos[workerSettings])
	if err != nil {
		return nil, err
	}
	for _, w := range workers {
		var settings [4]string
		if !w.Success {
			continue
		}
		if err := json.Unmarshal([]byte(w.Result), &settings); err != nil {
			return nil, fmt.Errorf("read the settings of %s: %w", w.Address, err)
		}
		own := findings(&dbsqlc.ReadDurabilityRow{
			Fsync: settings[0], SynchronousCommit: settings[1], FullPageWrites: settings[2],
			SynchronousStandbyNames: settings[3],
			Isolation:               "read committed",
		})
		for i := range own {
			if !own[i].Safe && found[i].Safe {
				own[i].Detail = "on the worker " + w.Address + ": " + own[i].Detail
				found[i] = own[i]
			}
		}
	}
	return found, nil
}

func synchronousCommitFinding(value string) store.Finding {
	return engine.SettingFinding("synchronous_commit", value, value != "off",
		"a commit is on the server's disk before the server confirms it",
		"confirmed commits of about the last second are lost when the server dies: set it to on for this role or database")
}

// standbyFinding says which commits a failover may lose. It is safe without standbys too: many users deliberately have
// a single server.
func standbyFinding(names, commit string) store.Finding {
	f := store.Finding{Name: "synchronous_standby_names", Value: names, Safe: true,
		Detail: "a commit is at a standby before the server confirms it"}
	switch {
	case names == "":
		f.Value = "none"
		f.Detail = "commits do not wait for a standby: a failover may lose the last confirmed commits"
	case commit == "local" || commit == "off":
		f.Detail = "there are synchronous standbys, but with synchronous_commit = " + commit + " commits do not wait for them: a failover may lose the last confirmed commits"
	}
	return f
}
