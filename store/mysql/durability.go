package mysql

import (
	"context"
	"fmt"
	"strings"

	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// durabilityVariables reads the settings that ReadDurability judges, as sessions that write have them. Not every server
// has each of them: MariaDB calls the isolation tx_isolation before 11.1.
const durabilityVariables = `SHOW SESSION VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', 'log_bin', 'sync_binlog',
'innodb_doublewrite', 'tx_isolation', 'transaction_isolation', 'read_only', 'wsrep_on', 'auto_increment_increment')`

// ReadDurability judges the server's settings for the redo log, the binary log, torn pages, and the isolation of
// sessions. With the same round trip it renews the step between ids (renewIDStep), which changes what later inserts
// report.
func (d *Driver) ReadDurability(ctx context.Context) ([]store.Finding, error) {
	v, err := d.variables(ctx, durabilityVariables)
	if err != nil {
		return nil, err
	}
	d.renewIDStep(v["auto_increment_increment"])
	if s := d.known(); s.tidb {
		return judgeTiDB(s, v), nil
	}
	return judgeVariables(v), nil
}

// judgeTiDB judges the isolation alone. TiDB has variables of MySQL for its log, but they do nothing.
func judgeTiDB(s server, v map[string]string) []store.Finding {
	return []store.Finding{
		{Name: "tidb", Value: s.version, Safe: true,
			Detail: "a majority of the replicas in TiKV has a commit before TiDB confirms it"},
		engine.IsolationFinding(isolationOf(v)),
	}
}

// variables returns the rows of a SHOW VARIABLES by name, in lower case.
func (d *Driver) variables(ctx context.Context, query string) (map[string]string, error) {
	rows, err := d.db.QueryContext(ctx, query)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	v := make(map[string]string)
	for rows.Next() {
		var name, value string
		if err := rows.Scan(&name, &value); err != nil {
			return nil, err
		}
		v[strings.ToLower(name)] = value
	}
	return v, rows.Err()
}

// judgeVariables judges each variable that the server has. It skips missing variables.
func judgeVariables(v map[string]string) []store.Finding {
	var found []store.Finding
	if flush, has := v["innodb_flush_log_at_trx_commit"]; has {
		// 3 exists on MariaDB only: the log is synced with each group commit
		found = append(found,
			engine.SettingFinding("innodb_flush_log_at_trx_commit", flush, flush == "1" || flush == "3",
				"a commit is on disk before the server confirms it",
				"confirmed commits of about the last second are lost when the server or its machine dies: set it to 1"))
	}
	switch {
	case isOn(v["log_bin"]):
		sync := v["sync_binlog"]
		found = append(found, engine.SettingFinding("sync_binlog", sync, sync == "1",
			"a commit is in the synced binary log before the server confirms it",
			fmt.Sprintf("the binary log is not synced with each commit (%s): after the machine dies, replicas may have other commits than the primary: set it to 1", sync)))
	case isOn(v[galera]):
		found = append(found, store.Finding{Name: galera, Value: "ON", Safe: true,
			Detail: "the servers of the Galera cluster have a commit before one of them confirms it"})
	default:
		found = append(found, store.Finding{Name: "log_bin", Value: "OFF", Safe: true,
			Detail: "the server has no binary log, and so no replicas: data that its disk loses is lost"})
	}
	if double, has := v["innodb_doublewrite"]; has {
		found = append(found,
			engine.SettingFinding("innodb_doublewrite", double, !strings.EqualFold(double, "OFF") && double != "0",
				"after a crash of the machine, half-written pages are repaired",
				"after a crash of the machine, half-written pages are lost with all their rows, unless the file system writes whole pages"))
	}
	return append(found, engine.IsolationFinding(isolationOf(v)))
}

// isolationOf returns the isolation level of sessions.
func isolationOf(v map[string]string) string {
	if level := v["transaction_isolation"]; level != "" {
		return level
	}
	return v["tx_isolation"]
}

func isOn(value string) bool { return strings.EqualFold(value, "ON") || value == "1" }
