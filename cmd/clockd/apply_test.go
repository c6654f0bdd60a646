package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/client"
)

// writeFile writes a file into a new directory and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// hookSecret is a signing secret.
const hookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

const shopFile = `
label: shop-jobs
applications:
  shop:
    settings:
      target: webhook
      webhook: &endpoint
        url: ADDRESS/rings
        secrets: [{$env: SHOP_SECRET}]
        headers: {X-Shop: {$file: token}}
    destinations:
      refunds: {webhook: {<<: *endpoint, url: ADDRESS/refunds}}
    alarms:
      tick: {repeat: {every: 1s}, target: webhook/refunds, text: tick}
      nightly: {repeat: {cron: "0 3 * * *", time_zone: Europe/Berlin}, payload: {day: 2026-01-31, n: 1}}
  bank:
    alarms: {interest: {repeat: {cron: "@daily"}}}
`

// A file is applied, changed and pruned. Its alarms ring at its destination, with the secrets of other files and of the
// environment.
func TestManifestFileIsAppliedChangedAndPruned(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	calls, address := startCalls(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1")
	env := []string{"CLOCKD_SERVER=" + p.url, "CLOCKD_TOKEN=" + newToken(t, databaseURL, "ops", "--role=admin"),
		"SHOP_SECRET=" + hookSecret}
	file := strings.ReplaceAll(shopFile, "ADDRESS", address)
	path := writeFile(t, "shop.yaml", file)
	if err := os.WriteFile(filepath.Join(filepath.Dir(path), "token"), []byte("7\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	apply := func(code int, wanted string, flags ...string) {
		t.Helper()
		if out, exit := typed(t, env, append([]string{"apply", path}, flags...)...); exit != code || out != wanted {
			t.Errorf("apply %v: exit code %d\n%s\nnot %d\n%s", flags, exit, out, code, wanted)
		}
	}
	const created = `shop, manifest shop-jobs:
  + setting target
  + setting webhook
  + destination refunds
  + alarm nightly
  + alarm tick
  5 created, 0 updated, 0 removed, 0 as before, 0 left
bank, manifest shop-jobs:
  + alarm interest
  1 created, 0 updated, 0 removed, 0 as before, 0 left
`
	eventually(t, "the node knows the token", func() bool {
		_, code := typed(t, env, "apply", path, "--dry-run")
		return code == 0
	})
	apply(0, strings.NewReplacer("1 created, 0 updated, 0 removed, 0 as before, 0 left",
		"nothing was changed: 1 to create, 0 to update, 0 to remove, 0 as they are, 0 left",
		"5 created, 0 updated, 0 removed, 0 as before, 0 left",
		"nothing was changed: 5 to create, 0 to update, 0 to remove, 0 as they are, 0 left").Replace(created), "--dry-run")
	apply(0, created)
	apply(0, `shop, manifest shop-jobs:
  0 created, 0 updated, 0 removed, 5 as before, 0 left
bank, manifest shop-jobs:
  0 created, 0 updated, 0 removed, 1 as before, 0 left
`, "--prune")
	eventually(t, "an alarm of the file rings", func() bool { return calls.of("tick") != "" })
	if came := calls.of("tick"); !strings.HasPrefix(came, "POST /refunds") {
		t.Errorf("it came as %q", came)
	}

	before, _, _ := strings.Cut(file, "  bank:")
	file = strings.NewReplacer("0 3 * * *", "0 4 * * *", "n: 1", "n: [1]").Replace(before)
	file = strings.Replace(file, "      tick: {repeat: {every: 1s}, target: webhook/refunds, text: tick}\n", "", 1)
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	apply(0, `shop, manifest shop-jobs:
  ~ alarm nightly
      payload.n: 1 -> [1]
      repeat.cron: "0 3 * * *" -> "0 4 * * *"
  ? alarm tick is no longer in the manifest: --prune removes it
  0 created, 1 updated, 0 removed, 3 as before, 1 left
bank, manifest shop-jobs:
  ? alarm interest is no longer in the manifest: --prune removes it
  0 created, 0 updated, 0 removed, 0 as before, 1 left
`)
	apply(0, `shop, manifest shop-jobs:
  - alarm tick
  0 created, 0 updated, 1 removed, 4 as before, 0 left
bank, manifest shop-jobs:
  - alarm interest
  0 created, 0 updated, 1 removed, 0 as before, 0 left
`, "--prune")
	for id, state := range map[string]string{
		"shop tick": "cancelled", "bank interest": "cancelled", "shop nightly": "scheduled",
	} {
		out, _ := typed(t, env, append([]string{"get"}, strings.Fields(id)...)...)
		if !strings.Contains(out, " is "+state) {
			t.Errorf("%s: %s", id, out)
		}
	}
	out, _ := typed(t, env, "manifests")
	if !strings.Contains(out, "shop         shop-jobs  2         1             1 ") || strings.Contains(out, "bank") {
		t.Errorf("manifests\n%s", out)
	}
	if out, code := typed(t, env, "apply", path, "--label=other"); code != exitFailure ||
		!strings.Contains(out, "setting target belongs to the manifest shop-jobs") {
		t.Errorf("another label: %d, %s", code, out)
	}
	if out, code := typed(t, env[:2], "apply", path); code != exitUsage ||
		!strings.Contains(out, "webhook.secrets[0]: the environment variable SHOP_SECRET is not set") {
		t.Errorf("without the secret: %d, %s", code, out)
	}
}

// jobs returns the manifest of a round: its settings, destination and alarms differ from other rounds.
func jobs(round int, address string) json.RawMessage {
	alarms := map[string]any{}
	target := fmt.Sprint("d", round%3)
	for i := range 8 {
		alarms[fmt.Sprint("a", (round+i)%12)] = map[string]any{
			"repeat": map[string]any{"cron": fmt.Sprintf("%d 3 * * *", round%60)}, "target": "webhook/" + target,
		}
	}
	m, err := json.Marshal(map[string]any{
		"settings": map[string]any{"max_rings": round%5 + 1},
		"destinations": map[string]any{target: map[string]any{"webhook": map[string]any{
			"url": fmt.Sprint(address, "/", round), "secrets": []string{hookSecret}}}},
		"alarms": alarms,
	})
	if err != nil {
		panic(err)
	}
	return m
}

// Several people apply different manifests with one label at once, at two nodes, and nodes are killed. Then the last
// manifest applies whole: nothing of the others is left, and each alarm has the destination of the last one.
func TestManifestsAreAppliedThroughKills(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			_, address := startHooks(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}
			survivor := start(t, env...)
			token := newToken(t, databaseURL, "ops", "--role=admin")
			apply := func(
				ctx context.Context, at *process, round int, o client.ManifestOptions,
			) (*client.ManifestResult, error) {
				c, err := client.New(at.url, client.WithToken(token), client.WithTries(1))
				if err != nil {
					return nil, err
				}
				return c.ApplyManifest(ctx, "shop", "jobs", jobs(round, address), o)
			}
			prune := client.ManifestOptions{Prune: true}
			eventually(t, "the node knows the token", func() bool {
				_, err := apply(t.Context(), survivor, 0, client.ManifestOptions{DryRun: true})
				return err == nil
			})
			const people, rounds, kills = 3, 8, 2
			for kill := range kills {
				victim := start(t, env...)
				var group errgroup.Group
				for person := range people {
					at := []*process{survivor, victim}[person%2]
					group.Go(func() error {
						for i := range rounds {
							round := kill*100 + person*rounds + i
							_, _ = apply(t.Context(), at, round, prune) // it may fail in many ways
							if at == victim && i == rounds/2 {
								victim.kill()
							}
						}
						return nil
					})
				}
				_ = group.Wait()
				last := 1000 + kill
				eventually(t, "the last manifest applies whole", func() bool {
					r, err := apply(t.Context(), survivor, last, prune)
					return err == nil && r.Failed == 0
				})
				r, err := apply(t.Context(), survivor, last, client.ManifestOptions{Prune: true, DryRun: true})
				if err != nil {
					t.Fatal(err)
				}
				named := map[string]bool{}
				for _, item := range r.Items {
					if item.Action != client.ManifestKeep {
						t.Errorf("kill %d: %+v", kill, item)
					}
					named[item.Kind+" "+item.Name] = true
				}
				demandOnly(t, survivor, token, last, named)
			}
		})
	}
}

// demandOnly demands that shop has the items of a round alone.
func demandOnly(t *testing.T, p *process, token string, round int, named map[string]bool) {
	t.Helper()
	c, err := client.New(p.url, client.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	has := map[string]bool{"setting max_rings": true}
	for a, err := range c.List(t.Context(), "shop", client.Filter{States: []client.State{client.Scheduled}}) {
		if err != nil {
			t.Fatal(err)
		}
		has["alarm "+a.BusinessID] = true
		if want := fmt.Sprint("webhook/d", round%3); a.Target != want || a.MaxRings != round%5+1 {
			t.Errorf("%s has the target %s and max_rings %d", a.BusinessID, a.Target, a.MaxRings)
		}
	}
	var settings struct {
		MaxRings     int                        `json:"max_rings"`
		Destinations map[string]json.RawMessage `json:"destinations"`
	}
	stored, err := c.Settings(t.Context(), "shop")
	if err == nil {
		err = json.Unmarshal(stored.Settings, &settings)
	}
	if err != nil || settings.MaxRings != round%5+1 {
		t.Errorf("%v, %s", err, stored.Settings)
	}
	for name := range settings.Destinations {
		has["destination "+name] = true
	}
	if !maps.Equal(has, named) {
		t.Errorf("shop has %v, not %v", slices.Sorted(maps.Keys(has)), slices.Sorted(maps.Keys(named)))
	}
	for r, err := range c.Manifests(t.Context(), "shop") {
		if err != nil || len(r.Items) != len(named) || time.Since(r.ChangedAt) > time.Hour {
			t.Errorf("%+v, %v", r, err)
		}
	}
}

func TestManifestFilesAreReadInBothFormats(t *testing.T) {
	t.Parallel()
	dir := filepath.Dir(writeFile(t, "secret", "top\n"))
	for _, c := range []struct{ content, label, applications string }{
		{"{}", "", ""},
		{"label: a", "a", ""},
		{`{"label":"a","applications":{"b":{"alarms":{"x":{"payload":{"z":1.10,"a":"<"}}}},"a":null}}`, "a",
			`b {"alarms":{"x":{"payload":{"z":1.10,"a":"<"}}}}; a {}`},
		{"applications: {a: {alarms: {1: {text: 2026-01-01, payload: [2026-01-01T00:00:00Z, 1.50, 12345678901234567890123, ~, yes, <, True]}}}}", "",
			`a {"alarms":{"1":{"text":"2026-01-01","payload":["2026-01-01T00:00:00Z",1.50,12345678901234567890123,null,"yes","<",true]}}}`},
		{"applications:\n  a: &a {settings: {x: 1, y: &y {p: 1, q: 2}}}\n  b: {<<: *a, alarms: null}\n  c: {settings: {y: {<<: [{q: 3, r: 4}, *y], q: 5}}}", "",
			`a {"settings":{"x":1,"y":{"p":1,"q":2}}}; b {"alarms":{},"settings":{"x":1,"y":{"p":1,"q":2}}}; c {"settings":{"y":{"q":5,"r":4,"p":1}}}`},
		{"applications: {a: {alarms: {x: null}}}", "", `a {"alarms":{"x":null}}`},
		{"applications: {a: {alarms: {x: {payload: {zip: 01234}}}}}", "", `!line 1: JSON has no value of this form (!!int)`},
		{"\n\nx: !!binary aGk=", "", `!line 3: JSON has no value of this form (!!binary)`},
		{"x: !mine 1", "", `!JSON has no value of this form (!mine)`},
		{"x: {[a]: 1}", "", `!line 1: a name must be a text`},
		{"x: {<<: 1}", "", `!line 1: << needs a mapping`},
		{"x: &x [*x]", "", `!make the document too large`},
		{"x: &x {<<: [*x, *x]}", "", `!make the document too large`},
		{"cron: */5 * * * *", "", `!write a value in quotes that begins with *`},
		{"a:\n\tb: 1", "", `!YAML has no tabs`},
		{"secrets: [*hush]", "", "!unknown anchor ... referenced"},
		{"a: \xff", "", "!the file is not UTF-8"},
		{"a: &a " + strings.Repeat("x", 1<<20) + "\nb: [" + strings.Repeat("*a,", 20) + "]", "", "!too large"},
		{"# nothing", "", "!the file is empty"},
		{"---", "", ""},
		{"applications: {a: {settings: {k: {$file: secret}}, alarms: {x: {receiver: {h: {$file: secret}}, payload: {$file: no}}}}}", "",
			`a {"settings":{"k":"top"},"alarms":{"x":{"receiver":{"h":"top"},"payload":{"$file":"no"}}}}`},
		{"x: &x {text: t}\n", "", "!the file has no \"x\""},
		{"applications: {a: {alarm: {}}}", "", `!applications.a has no "alarm": it may have settings, destinations, alarms, did you mean alarms?`},
		{`{"applications":{"a":{},"a":{}}}`, "", `!applications has "a" twice`},
		{"a: 1\na: 2\n", "", `!line 2: "a" comes twice`},
		{"a: [", "", "!no YAML: line 1"},
		{`{"a": [1 2}`, "", "!neither JSON (invalid character '2' after array element) nor YAML ("},
		{"", "", "!the file is empty"},
		{"[1]", "", "!the file must be an object"},
		{"label: a\n---\nlabel: b\n", "", "!more than one YAML document"},
		{"label: [a]", "", "!the label must be a text"},
		{"applications: {a: {settings: {k: {$env: CLOCKD_NO_SUCH}}}}", "", "!applications.a.settings.k: the environment variable CLOCKD_NO_SUCH is not set"},
		{"applications: {a: {settings: {k: [{$file: none}]}}}", "", "!applications.a.settings.k[0]: open"},
		{"applications: {a: {alarms: {x: 1}}}", "", "!applications.a.alarms.x must be an object"},
		{"applications: {a: {settings: {k: .nan}}}", "", `!line 1: JSON has no value of this form (!!float)`},
		{"a: &a [x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n" +
			"d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e]\n" +
			"g: [*f,*f,*f,*f,*f,*f,*f,*f]", "", "!aliases or depth make the document too large"},
	} {
		path := filepath.Join(dir, "file")
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := readManifestFile(path)
		if wanted, isFault := strings.CutPrefix(c.applications, "!"); isFault {
			if err == nil || !strings.Contains(err.Error(), wanted) {
				t.Errorf("%s: %v, not %s", c.content, err, wanted)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.content, err)
			continue
		}
		var applications []string
		for _, a := range f.applications {
			applications = append(applications, a.name+" "+string(a.value))
		}
		if got := strings.Join(applications, "; "); got != c.applications || f.label != c.label {
			t.Errorf("%s is read as %s, %s", c.content, f.label, got)
		}
	}
}

func TestManifestFilesWithOneLabelAreReadTogether(t *testing.T) {
	t.Parallel()
	a := writeFile(t, "a.yaml", "label: jobs\napplications: {shop: {}}")
	b := writeFile(t, "b.yaml", "label: jobs\napplications: {bank: {}}")
	other := writeFile(t, "other.yaml", "label: other\napplications: {mail: {}}")
	none := writeFile(t, "none.yaml", "applications: {mail: {}}")
	for _, c := range []struct {
		paths         []string
		label, wanted string
	}{
		{[]string{a, b}, "", "jobs: shop bank"},
		{[]string{other, none}, "all", "another file has the application mail too"},
		{[]string{a, other}, "new", "new: shop mail"},
		{[]string{a, other}, "", "it has the label other"},
		{[]string{a, none}, "", "it has no label"},
		{[]string{a, a}, "", "another file has the application shop too"},
		{[]string{a, filepath.Join(filepath.Dir(a), "missing")}, "", "no such file"},
	} {
		f, err := readManifestFiles(c.paths, c.label)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = f.label + ":"
			for _, m := range f.applications {
				got += " " + m.name
			}
		}
		if !strings.Contains(got, c.wanted) {
			t.Errorf("%v: %s, not %s", c.paths, got, c.wanted)
		}
	}
}

func FuzzManifestFile(f *testing.F) {
	f.Add([]byte(shopFile))
	f.Add([]byte(`{"label":"a","applications":{"b":{"alarms":{"x":{"receiver":{"h":[{"$env":"HOME"}]}}}}}}`))
	f.Fuzz(func(t *testing.T, content []byte) {
		if !json.Valid(content) {
			var err error
			if content, err = yamlToJSON(content); err != nil {
				return
			}
			if !json.Valid(content) {
				t.Fatalf("%q is no JSON", content)
			}
		}
		read, err := parseManifestFile(content, "/nonexistent")
		if err != nil {
			return
		}
		for _, a := range read.applications {
			if !json.Valid(a.value) {
				t.Fatalf("%q: %s is %q", content, a.name, a.value)
			}
		}
	})
}
