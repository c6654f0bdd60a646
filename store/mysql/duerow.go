package mysql

import (
	"strconv"

	"github.com/clockd/clockd/store/engine"
)

// versionText returns the numbers from id to update_time as LockDue packs them.
func versionText(r *engine.DueRow) string {
	b := strconv.AppendInt(nil, r.ID, 10)
	for _, n := range [...]int64{
		r.Generation, r.State, r.RingNo, r.RetryTimes, r.InDoubt, int64(engine.FromNull(r.RungAt)),
		int64(engine.FromNull(r.NextTryTime)), r.UpdateTime,
	} {
		b = strconv.AppendInt(append(b, ' '), n, 10)
	}
	return string(b)
}
