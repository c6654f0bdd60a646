package store

import "strings"

// Isolation judges the isolation level of the sessions that write: the adapters are proven on READ COMMITTED.
func Isolation(level string) Finding {
	plain := strings.ToLower(strings.ReplaceAll(level, "-", " "))
	if plain == "read committed" {
		return Finding{Name: "isolation", Value: level, Safe: true, Detail: "sessions are READ COMMITTED, whatever the server's default"}
	}
	return Finding{Name: "isolation", Value: level, Detail: "sessions are not READ COMMITTED: something between here and the server changed what they begin with"}
}

// Judge returns the finding of a setting that is safe with some values only.
func Judge(name, value string, safe bool, why, lost string) Finding {
	f := Finding{Name: name, Value: value, Safe: safe, Detail: why}
	if !safe {
		f.Detail = lost
	}
	return f
}
