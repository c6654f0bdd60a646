package mysql

import (
	"context"
	"strconv"
)

// galera is the variable that is on in a server of a Galera cluster (MariaDB Cluster, Percona XtraDB Cluster).
const galera = "wsrep_on"

// The statements of catchUp.
const (
	beginSyncWait = "SET SESSION wsrep_sync_wait = 1"
	syncWait      = "SELECT 1"
	endSyncWait   = "SET SESSION wsrep_sync_wait = DEFAULT"
)

// catchUp waits until the Galera server has applied every commit that the cluster ordered before this call. After a
// failover the new writer may still have to apply commits that the old writer has confirmed. A read before that would
// miss them: it would find a cancelled alarm scheduled. Later statements of the connection do not wait, because all
// clockd nodes write to the same server. A server outside the majority of its cluster refuses the wait
// (errNotPrepared).
func catchUp(ctx context.Context, session sessionConn) error {
	if _, err := session.ExecContext(ctx, beginSyncWait, nil); err != nil {
		return err
	}
	rows, err := session.QueryContext(ctx, syncWait, nil)
	if err != nil {
		return err
	}
	if err := rows.Close(); err != nil {
		return err
	}
	_, err = session.ExecContext(ctx, endSyncWait, nil)
	return err
}

// renewIDStep remembers the step between the ids of one INSERT. A Galera cluster sets it to the number of its servers
// whenever a server joins or leaves. With a wrong step the loaders are offered wrong ids of new alarms, and a sweep
// finds these alarms. Before Identify it does nothing.
func (d *Driver) renewIDStep(autoIncrementIncrement string) {
	step, err := strconv.ParseInt(autoIncrementIncrement, 10, 64)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil && d.server.version != "" {
		d.server.idStep = step
	}
}
