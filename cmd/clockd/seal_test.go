package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

// With a key the database has no secret, also in the history, and rings are signed as before. The key can be replaced,
// and taken away.
func TestSecretsAreEncryptedWithAKey(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := migrated(t, e.open(t))
			h, address := startHooks(t)
			files := map[string]string{}
			for name, keys := range map[string]string{"a": "a", "ba": "b a", "ab": "a b", "b": "b"} {
				var text string
				for _, letter := range strings.Fields(keys) {
					text += base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32))) + "\n"
				}
				files[name] = writtenFile(t, 0o600, text)
			}
			env := func(keys string) []string {
				env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1", "CLOCKD_AUTH=none"}
				if keys != "" {
					env = append(env, "CLOCKD_SECRET_KEY_FILE="+files[keys])
				}
				return env
			}
			run := func(keys string, code int, says string, args ...string) string {
				t.Helper()
				out, got := typed(t, env(keys), args...)
				if got != code || !strings.Contains(strings.Join(strings.Fields(out), " "), says) {
					t.Errorf("%v with keys %q: exit code %d, not %d, or no %q in\n%s", args, keys, got, code, says, out)
				}
				return out
			}
			secrets := func() (present int) { // no ciphertext has = or " before a text
				t.Helper()
				err := openDatabase(t, databaseURL).QueryRowContext(t.Context(), `SELECT count(*) FROM (
					SELECT document FROM application_setting UNION ALL SELECT document FROM application_setting_history) d
					WHERE document LIKE '%=hush%' OR document LIKE '%"hush%'
					OR document LIKE '%"whsec_%' AND document NOT LIKE '%"whsec_...%'`).Scan(&present)
				if err != nil {
					t.Fatal(err)
				}
				return present
			}

			set := []string{"application", "set", "shop", "--target=webhook", "--webhook-url=" + address + "/shop?hook=hush",
				"--webhook-header=x-key=hush", "--webhook=timeout=5s"}
			_, secret, _ := strings.Cut(run("", 0, "new signing secret: ", set...), "new signing secret: ")
			var err error
			if h.verifier, err = standardwebhooks.NewWebhook(strings.TrimSpace(secret)); err != nil {
				t.Fatal(err)
			}
			run("", 0, "version 2", "application", "set", "shop", "--max-rings=4")
			run("", 0, "version 1", "application", "set", "till", "--max-rings=4")
			if secrets() != 3 {
				t.Errorf("%d documents have secrets: they are found in the wrong way", secrets())
			}
			run("", exitUsage, "CLOCKD_SECRET_KEY_FILE names a file", "application", "seal")

			// Sealed while a node works.
			p := start(t, env("a")...)
			eventually(t, "the node applies the target", func() bool { return p.settings("shop").AppliedTarget == "webhook" })
			details := p.details("settings", statusWarning)
			if len(details) != 1 || !strings.Contains(details[0], "clockd application seal") {
				t.Errorf("readiness: %q", details)
			}
			run("a", 0, ": documents 2, applications 1", "application", "seal")
			run("a", 0, "encrypted with the key 3ba3f5f4: documents 0, applications 0", "application", "seal")
			if n := secrets(); n != 0 {
				t.Errorf("%d documents have secrets", n)
			}
			eventually(t, "the node has read them", func() bool { return len(p.details("settings", statusWarning)) == 0 })
			stop := func(p *process) {
				t.Helper()
				if err := p.terminate(); err != nil {
					t.Error(err)
				}
			}
			rings := 0
			ring := func(p *process) {
				t.Helper()
				rings++
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint(rings)), map[string]any{"delay": 0})
				eventually(t, "the alarm rings", func() bool { return h.number() == rings })
			}
			ring(p)
			run("a", 0, "version 3", "application", "set", "shop", "--webhook-header=x-key=hushed")
			if n := secrets(); n != 0 {
				t.Errorf("%d documents have secrets after a change", n)
			}
			run("a", 0, "hushed", "application", "show", "shop", "--secrets")
			run("", 1, "their key 3ba3f5f4 is not given here (CLOCKD_SECRET_KEY_FILE)", "application", "show", "shop")
			run("", 1, "is not given here", "application", "show", "shop", "--secrets")
			run("b", 1, "is not given here", "application", "set", "shop", "--max-rings=5")
			run("b", 1, "report no key bdb33976", "application", "seal")
			run("b", 1, "report no key bdb33976", "application", "set", "till", "--webhook-url="+address+"/till?hook=hush")
			run("", 1, "their key 3ba3f5f4 is not given here", "application", "set", "till",
				"--webhook-url="+address+"/till?hook=hush")
			run("", 0, "version 2", "application", "set", "till", "--max-rings=5")
			run("b", 0, "version 1", "application", "reset", "fresh")
			stop(p)
			run("b", 1, "former versions that cannot be read: 2.", "application", "seal")
			run("b", 1, "their key 3ba3f5f4 is not given here", "application", "set", "till",
				"--webhook-url="+address+"/till?hook=hush")

			// No node starts without the key. One that runs already holds the alarms of this application alone.
			out, code := typed(t, append(env(""), "CLOCKD_LISTEN=127.0.0.1:0"), "serve")
			if code != 1 || !strings.Contains(out, "shop: the settings are encrypted, and their key 3ba3f5f4") {
				t.Errorf("exit code %d: %s", code, out)
			}
			run("a", 0, "decrypted: ", "application", "seal", "--plain")
			p = start(t, env("")...)
			run("a", 1, "these nodes report no key 3ba3f5f4", "application", "seal")
			// Settings that were kept plain, or hold nothing to encrypt, do not ask for the key.
			run("a", 0, "unchanged", "application", "set", "shop", "--max-rings=4")
			run("a", 0, "version 3", "application", "reset", "till")
			token := "CLOCKD_TOKEN=" + newToken(t, databaseURL, "ops", "--role=admin")
			withKey := start(t, append(env("a"), "CLOCKD_AUTH=required")...)
			eventually(t, "the node with the key names the other", func() bool {
				details := withKey.details("keys", statusWarning)
				return len(details) == 1 && strings.Contains(details[0], "reports no key 3ba3f5f4")
			})
			setOnServer := func(code int, says string) {
				t.Helper()
				out, got := typed(t, append(env(""), token), "application", "set", "shop", "--max-rings=6",
					"--server="+withKey.url)
				if got != code || !strings.Contains(out, says) {
					t.Errorf("exit code %d, not %d, or no %q in %s", got, code, says, out)
				}
			}
			setOnServer(1, "these nodes report no key 3ba3f5f4")
			if err := p.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the node without the key counts as dead", func() bool {
				return len(withKey.details("keys", statusWarning)) == 0
			})
			setOnServer(0, "version 4")
			stop(withKey)
			if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			<-p.exited // it is new
			if !strings.Contains(p.log.String(), "shop: the settings are encrypted, and their key 3ba3f5f4") {
				t.Errorf("the log has no reason: %s", p.log)
			}

			// The export has what the database has. An import needs the key.
			file := filepath.Join(t.TempDir(), "export")
			run("", 0, "exported", "export", file)
			source := databaseURL
			databaseURL = migrated(t, sqliteFile(t))
			run("", 1, "is not given here", "import", file)
			run("", 1, "is not given here", "import", "--skip-invalid", file)
			run("ba", 0, "imported", "import", "--merge", file)
			run("b", 0, "version 1", "application", "show", "shop")
			if n := secrets(); n != 0 {
				t.Errorf("%d imported documents have secrets", n)
			}
			run("ba", 0, "settings=3", "import", "--merge", file)
			databaseURL = source

			// Another key, and none.
			p = start(t, env("ba")...)
			ring(p)
			inSQL := func(was, is string) {
				t.Helper()
				for _, statement := range []string{
					fmt.Sprintf("UPDATE application_setting SET document = replace(document, '%s', '%s') WHERE application = 'shop'",
						was, is), "UPDATE application_setting_counter SET changes = changes + 1"} {
					if _, err := openDatabase(t, databaseURL).ExecContext(t.Context(), statement); err != nil {
						t.Fatal(err)
					}
				}
			}
			inSQL(`"timeout":"5s"`, `"timeout":"6s"`)
			eventually(t, "the node holds the alarms", func() bool {
				details := p.details("settings", statusWarning)
				return len(details) == 1 && strings.Contains(details[0], "the alarms of shop wait") &&
					strings.Contains(details[0], "were changed since")
			})
			p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "held"), map[string]any{"delay": 0})
			inSQL(`"timeout":"6s"`, `"timeout":"5s"`)
			rings++
			eventually(t, "the alarm rings that was held", func() bool { return h.number() == rings })
			run("ba", 0, ": documents 4, applications 1 not used any more: 3ba3f5f4", "application", "seal")
			run("ab", 1, "these nodes still encrypt with another key", "application", "seal")
			stop(p)
			run("ba", 0, "not used any more: 3ba3f5f4", "application", "seal")
			p = start(t, env("b")...)
			ring(p)
			run("b", 0, "decrypted: documents 4, applications 1", "application", "seal", "--plain")
			stop(p)
			if secrets() == 0 {
				t.Error("no document has secrets")
			}
			p = start(t, env("")...)
			ring(p)
			select {
			case r := <-h.refused:
				t.Errorf("a request without a valid signature: %s", r)
			default:
			}
			run("", 0, "settings_unseal shop", "audit", "--limit=50", "--server="+p.url)
		})
	}
}

// A new node does not go on if settings were encrypted with a key that it lacks, by a person who could not see it.
func TestNodeEndsIfAChangeDidNotSeeIt(t *testing.T) {
	t.Parallel()
	change := func(t *testing.T, databaseURL string, args ...string) {
		t.Helper()
		key := "CLOCKD_SECRET_KEY=" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("a", 32)))
		if out, code := typed(t, []string{"CLOCKD_DATABASE_URL=" + databaseURL, key}, args...); code != 0 {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
	set := []string{"application", "set", "shop", "--webhook-url=https://shop.example/?hook=hush"}
	for name, play := range map[string]func(t *testing.T, databaseURL string, node func() *process) *process{
		"its row is not written yet": func(t *testing.T, databaseURL string, node func() *process) *process {
			t.Helper()
			unlock := lockRows(t, databaseURL, "LOCK TABLE node IN EXCLUSIVE MODE")
			p := node()
			p.must(http.StatusOK, http.MethodGet, "/v1/applications/shop/settings", nil) // it has read the settings
			change(t, databaseURL, set...)
			unlock()
			return p
		},
		"its row was written after the look": func(t *testing.T, databaseURL string, node func() *process) *process {
			t.Helper()
			unlock := lockRows(t, databaseURL, "SELECT * FROM application_setting_counter FOR UPDATE")
			changed := make(chan struct{})
			go func() {
				defer close(changed)
				change(t, databaseURL, set...)
			}()
			eventually(t, "the change has looked at the nodes", func() bool { return waiters(t, databaseURL) == 1 })
			p := node()
			eventually(t, "the node has its shards", func() bool {
				return strings.Contains(p.log.String(), "shards changed hands")
			})
			unlock()
			<-changed
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databaseURL := migrated(t, postgres(t))
			p := play(t, databaseURL, func() *process {
				return start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_AUTH=none")
			})
			select {
			case <-p.exited:
				if !strings.Contains(p.log.String(), "shop: the settings are encrypted, and their key 3ba3f5f4") {
					t.Errorf("the log has no reason: %s", p.log)
				}
			case <-time.After(time.Minute):
				t.Error("the node goes on without the key")
			}
		})
	}
}

// waiters returns the number of sessions that wait for a lock of another one in the test's database.
func waiters(t *testing.T, databaseURL string) (n int) {
	t.Helper()
	err := openDatabase(t, databaseURL).QueryRowContext(t.Context(),
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&n)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestWrongKeysAreRefusedAtTheStart(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"config"}, {"application", "list"}, {"application", "seal"}, {"import", "-"}} {
		out, code := typed(t, []string{"CLOCKD_DATABASE_URL=" + sqliteFile(t), "CLOCKD_SECRET_KEY=hushhush"}, args...)
		if code != exitUsage || !strings.Contains(out, "key 1: a key must be 32 random bytes") ||
			strings.Contains(out, "hushhush") {
			t.Errorf("%v: exit code %d: %s", args, code, out)
		}
	}
}
