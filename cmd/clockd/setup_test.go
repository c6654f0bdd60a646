package main

import (
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// TestMissingFolderEndsTheStart names a SQLite file in a folder that does not exist. Waiting would not help.
func TestMissingFolderEndsTheStart(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "none")
	s := &shell{t, []string{"CLOCKD_DATABASE_URL=sqlite:" + folder + "/clockd.db", "CLOCKD_START_TIMEOUT=1h", "CLOCKD_LISTEN=127.0.0.1:0"}}
	for _, command := range []string{"serve", "migrate"} {
		if out := s.run(1, command); !strings.Contains(out, `the folder "`+folder+`" does not exist`) || strings.Contains(out, "not available yet") {
			t.Errorf("clockd %s printed %s", command, out)
		}
	}
}

// TestWrongDatabaseIsNamedAtTheStart starts with an unknown user, and with a database that does not exist. The log says that waiting
// hardly helps.
func TestWrongDatabaseIsNamedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			right := e.open(t)
			wrong := parse(t, right)
			wrong.User = url.UserPassword("stranger", "wrong-password")
			missing := parse(t, right)
			missing.Path += "_missing"
			for _, u := range []string{wrong.String(), missing.String()} {
				p := starting(t, "CLOCKD_DATABASE_URL="+u)
				eventually(t, "the log tells of "+u, func() bool {
					return strings.Contains(p.log.String(), "level=ERROR msg=\"the database does not let clockd in: waiting helps only if")
				})
				if strings.Contains(p.log.String(), "wrong-password") {
					t.Errorf("the log has the password: %s", p.log)
				}
				p.kill()
			}
		})
	}
}
