package sqlite

import (
	"strconv"

	"github.com/clockd/clockd/store/engine"
	"github.com/clockd/clockd/store/sqlite/internal/dbsqlc"
)

// The parameters of the statements that write the columns of one row.
var (
	insertParams        = engine.NewParams[engine.Row, dbsqlc.InsertAlarmsParams]()
	restoreParams       = engine.NewParams[engine.Row, dbsqlc.RestoreAlarmsParams]()
	rewriteParams       = engine.NewParams[engine.Row, dbsqlc.RewriteAlarmsParams]()
	cancelParams        = engine.NewParams[engine.Row, dbsqlc.CancelAlarmsParams]()
	amendParams         = engine.NewParams[engine.Row, dbsqlc.AmendAlarmsParams]()
	insertAttemptParams = engine.NewParams[engine.AttemptRow, dbsqlc.InsertAttemptsParams]()
)

// jsonNumbers returns a JSON array of numbers for json_each. It does not use package json, because T may marshal as a
// name.
func jsonNumbers[T ~int | ~int8 | ~int64](numbers []T) string {
	b := make([]byte, 0, 2+8*len(numbers))
	for i, n := range numbers {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return "[" + string(b) + "]"
}
