package engine

import (
	"strings"

	"github.com/clockd/clockd/store"
)

// IsolationFinding judges the isolation level of sessions that write. The adapters are tested on READ COMMITTED only.
func IsolationFinding(level string) store.Finding {
	plain := strings.ToLower(strings.ReplaceAll(level, "-", " "))
	if plain == "read committed" {
		return store.Finding{Name: "isolation", Value: level, Safe: true,
			Detail: "sessions are READ COMMITTED, whatever the server's default"}
	}
	return store.Finding{Name: "isolation", Value: level,
		Detail: "sessions are not READ COMMITTED: something between clockd and the server changed their initial level"}
}

// SettingFinding returns the finding of a server setting. Its detail is safeDetail if the value is safe, otherwise
// unsafeDetail.
func SettingFinding(name, value string, safe bool, safeDetail, unsafeDetail string) store.Finding {
	f := store.Finding{Name: name, Value: value, Safe: safe, Detail: safeDetail}
	if !safe {
		f.Detail = unsafeDetail
	}
	return f
}
