package mysql

import (
	"fmt"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// The arguments of the statements that write the columns of many rows. In an UPDATE -1, the value of clock.NoInstant,
// stands for NULL.
var (
	insertArgs  = rowArgs[engine.Row, dbsqlc.InsertAlarmsParams](dbsqlc.InsertAlarms, nil, "Build")
	restoreArgs = rowArgs[engine.Row, dbsqlc.RestoreAlarmsParams](dbsqlc.RestoreAlarms, nil, "Build")
	rewriteArgs = rowArgs[engine.Row, dbsqlc.RewriteAlarmsParams](dbsqlc.RewriteAlarms, int64(clock.NoInstant),
		"OldState", "NotInDoubt", "Build")
	amendArgs = rowArgs[engine.Row, dbsqlc.AmendAlarmsParams](dbsqlc.AmendAlarms, int64(clock.NoInstant), "OldState",
		"OldRingNo", "NotInDoubt", "OldRetryTimes", "Build")
	settleArgs  = rowArgs[engine.Row, dbsqlc.SettleAlarmsParams](dbsqlc.SettleAlarms, int64(clock.NoInstant))
	attemptArgs = rowArgs[engine.AttemptRow, dbsqlc.InsertAttemptsParams](dbsqlc.InsertAttempts, nil)
	actArgs     = rowArgs[engine.NewActRow, dbsqlc.AddActsParams](dbsqlc.AddActs, nil)
)

// rowArgs returns the Args of a statement. It panics if a row of the statement has more or fewer parameters than P has
// columns.
func rowArgs[R, P any](query string, null any, others ...string) *engine.Args[R, P] {
	args, parts := engine.NewArgs[R, P](null, others...), split(query)
	if wanted := paramsIn(parts.next); args.Len() != wanted {
		panic(fmt.Sprintf("mysql: %d columns for %d parameters of a row in %s", args.Len(), wanted, query))
	}
	return args
}
