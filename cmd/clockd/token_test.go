package main

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock/access"
)

// The command works on the database without a running node. A secret is printed when it is made, and never again.
func TestTokenCommandMakesAndEndsTokens(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("mariadb") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			env := []string{"CLOCKD_DATABASE_URL=" + e.open(t), "CLOCKD_CHANGED_BY=ops"}
			run := func(args ...string) string {
				t.Helper()
				c := command(env, append([]string{"token"}, args...)...)
				out, err := c.Output()
				if err != nil {
					t.Fatalf("%v: %v: %s", args, err, out)
				}
				return string(out)
			}
			refused := func(fragment string, args ...string) {
				t.Helper()
				out, err := command(env, append([]string{"token"}, args...)...).CombinedOutput()
				if err == nil || !strings.Contains(string(out), fragment) {
					t.Errorf("%v: %v: %s, want a refusal with %q", args, err, out, fragment)
				}
			}
			refused("clockd migrate", "list")
			if out, err := command(env, "migrate").CombinedOutput(); err != nil {
				t.Fatalf("migrate: %v: %s", err, out)
			}
			refused("unknown role", "create", "shop", "--role=root")
			refused("applications", "create", "shop", "--role=application")
			refused("neither an application", "create", "shop", "--role=application", "--applications=sh op")
			refused("printable text", "create", "", "--role=admin")
			refused("has no unit", "create", "shop", "--role=admin", "--expires=90")

			text, err := access.ParseText(strings.TrimSpace(run("create", "shop frontend", "--role=application",
				"--applications=shop,shop-*", "--expires=90d")))
			if err != nil {
				t.Fatal(err)
			}
			admin := run("create", "boss", "--role=admin", "--json")
			if !strings.Contains(admin, `"token":"clockd_`) || !strings.Contains(admin, `"applications":["*"]`) ||
				!strings.Contains(admin, `"created_by":"ops","expires_at":null`) {
				t.Errorf("an admin: %s", admin)
			}
			refused("clockd token list has the ids", "revoke", "unknown")
			refused("clockd token list has the ids", "rotate", "shop frontend")
			for _, wrong := range []string{text.String() + "x", text.String()[:40]} {
				refused("neither the id of a token nor a whole token", "revoke", wrong)
				if out, _ := command(env, "token", "revoke", wrong).CombinedOutput(); strings.Contains(string(out), text.Secret[:9]) {
					t.Errorf("an error repeats a secret: %s", out)
				}
			}
			rotated, err := access.ParseText(strings.TrimSpace(run("rotate", text.ID, "--grace=1h")))
			if err != nil || rotated.ID != text.ID || rotated.Secret == text.Secret {
				t.Errorf("rotated: %v", err)
			}
			if out, err := command(env, "token", "rotate", text.ID, "--grace=1h").CombinedOutput(); err != nil ||
				!strings.Contains(string(out), "its old secret until 2") {
				t.Errorf("rotate prints %s", out)
			}
			if out := run("list"); !strings.Contains(out, ", its old secret until 2") {
				t.Errorf("the list: %s", out)
			}
			if out := run("revoke", rotated.String()); !strings.Contains(out, "revoked at 2") {
				t.Errorf("revoke: %s", out)
			}
			refused("revoked", "rotate", text.ID)

			list := run("list")
			for _, want := range []string{text.ID, "shop frontend", "shop,shop-*", "revoked at", "valid without end", "none", "ops"} {
				if !strings.Contains(list, want) {
					t.Errorf("the list does not show %q:\n%s", want, list)
				}
			}
			lines := run("list", "--json")
			if strings.Count(lines, "\n") != 2 ||
				!strings.Contains(lines, `"role":"application","applications":["shop","shop-*"]`) {
				t.Errorf("the list as JSON:\n%s", lines)
			}
			for _, shown := range []string{list, lines} {
				for _, secret := range []string{text.Secret, rotated.Secret, text.Hash().Encode(), rotated.Hash().Encode()} {
					if strings.Contains(shown, secret) {
						t.Errorf("a list shows a secret:\n%s", shown)
					}
				}
			}
		})
	}
}
