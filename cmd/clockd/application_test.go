package main

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock/settings"
)

// The command works on the database without a running node. Versions rise, conditions hold, and the history stays.
func TestApplicationCommandChangesSettings(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_CHANGED_BY=ops"}
			run := func(args ...string) (out string, err error) {
				b, err := command(env, append([]string{"application"}, args...)...).CombinedOutput()
				return string(b), err
			}
			want := func(fragments []string, args ...string) {
				t.Helper()
				out, err := run(args...)
				if err != nil {
					t.Fatalf("%v: %v: %s", args, err, out)
				}
				for _, f := range fragments {
					if !strings.Contains(out, f) {
						t.Errorf("%v does not print %q:\n%s", args, f, out)
					}
				}
			}
			refused := func(fragment string, args ...string) {
				t.Helper()
				if out, err := run(args...); err == nil || !strings.Contains(out, fragment) {
					t.Errorf("%v: %v: %s, want a refusal with %q", args, err, out, fragment)
				}
			}
			refused("clockd migrate", "show", "shop")
			if out, err := command(env, "migrate").CombinedOutput(); err != nil {
				t.Fatalf("migrate: %v: %s", err, out)
			}
			want([]string{"shop has no settings"}, "show", "shop")
			want([]string{"version 1", "by ops", "stream", "initial 2s, factor 2, cap 30s, limit 5",
				"max_rings      10 (default)"},
				"set", "shop", "--target=stream", "--retry=initial=2s,limit=5")
			want([]string{"version 2", "initial 2s, factor 2, cap 1m, limit none", "45s", "stream"},
				"set", "shop", "--retry=cap=1m,limit=none", "--ack-timeout=45s", "--if-version=1")
			want([]string{"unchanged", "version 2"}, "set", "shop", "--ack-timeout=45s")
			refused("version 2, not 1", "set", "shop", "--max-rings=3", "--if-version=1")
			refused("version 2, not 0", "reset", "shop", "--if-version=0")
			refused("target", "set", "shop", "--target=pigeon")
			refused("target is \"\"", "set", "shop", "--target=", "--max-rings=3") // a script with a variable that is not set
			refused("--alarm-targets is empty", "set", "shop", "--alarm-targets=", "--max-rings=3")
			refused("--alarm-targets is empty", "set", "shop", "--alarm-targets=")
			refused("--unset is empty", "set", "shop", "--unset=", "--max-rings=3")
			refused("field webhook", "set", "shop", "--webhook-url=", "--max-rings=3")
			refused("--destination x: give flags of amqp, webhook, kafka, grpc with it", "set", "shop", "--destination=x",
				"--max-rings=3")
			refused("field destinations.a b", "set", "shop", "--destination=a b", "--kafka-topic=t")
			refused("field destinations.x.kafka.topic", "set", "shop", "--destination=x", "--kafka-topic=t t")
			refused(`--drop-destination: the application has no destination "x"; it has: none`, "set", "shop",
				"--drop-destination=x")
			refused("field ack_timeout", "set", "shop", "--ack-timeout=", "--max-rings=3")
			refused("field retry.cap", "set", "shop", "--retry=cap=1ms")
			want([]string{"alarm_targets  stream, pull\n"}, "set", "shop", "--alarm-targets=pull,stream")
			refused("target is \"pigeon\"; it must be one of", "set", "shop", "--alarm-targets=pigeon")
			refused("field kafka", "set", "shop", "--alarm-targets=kafka")
			refused("unknown field", "set", "shop", "--retry=tries=3")
			refused("field max_rings", "set", "shop", "--max-rings=-1")
			refused("field max_rings", "set", "shop", "--max-rings=0")
			refused("field ack_timeout", "set", "shop", "--ack-timeout=soon")
			refused("unknown setting", "set", "shop", "--unset=colour")
			refused("name a setting", "set", "shop")
			refused("application must be", "set", "sh/op", "--max-rings=3")
			refused("must be from 1", "history", "shop", "--limit=0")
			refused("give exchange, routing_key or another field", "set", "shop", "--amqp=exchange=")
			refused("unknown field", "set", "shop", "--amqp=queue=q")
			want([]string{"version 4", "target         amqp with a broker, else stream (default)", "45s"}, "set",
				"shop", "--unset=target,retry")
			want([]string{"version 5", "none (default)"}, "reset", "shop")
			want([]string{"version 1"}, "set", "bank", "--max-rings=3")
			want([]string{"APPLICATION", "bank", `{"max_rings":3}`, "shop"}, "list")
			want([]string{`"application":"bank"`, `"settings":{"max_rings":3}`}, "list", "--json")
			history, err := command(env, "application", "history", "shop", "--json", "--limit=3").Output()
			if out := string(history); err != nil || strings.Count(out, "\n") != 3 ||
				!strings.HasPrefix(out, `{"application":"shop","version":5,`) {
				t.Errorf("history: %v\n%s", err, out)
			}
			want([]string{"5", "ops", `"target":"stream"`}, "history", "shop")

			refused("field webhook", "set", "hook", "--target=webhook")
			want([]string{"new signing secret: whsec_",
				"url https://a.example/x?..., method POST, headers 0, body payload, timeout 15s, concurrency 16, secrets 1"},
				"set", "hook", "--target=webhook", "--webhook-url=https://a.example/x?key=hush")
			refused("has a flag of its own: --webhook-secret", "set", "hook", "--webhook=secrets=x")
			refused("field webhook.timeout", "set", "hook", "--webhook=timeout=1ms")
			refused("field webhook.url", "set", "hook", "--webhook-url=ftp://a.example/")
			want([]string{"new signing secret: whsec_", "headers 1, body payload, timeout 15s, concurrency 3, secrets 2"},
				"set", "hook", "--webhook-secret=new", "--webhook=concurrency=3", "--webhook-header=authorization=hush")
			for _, args := range [][]string{{"show", "hook"}, {"show", "hook", "--json"}, {"list"}, {"list", "--json"}, {"history", "hook"}, {"history", "hook", "--json"}} {
				if out, err := run(args...); err != nil || strings.Contains(out, "hush") ||
					strings.Count(out, "whsec_") != strings.Count(out, "whsec_...") {
					t.Errorf("%v shows a secret, or fails: %v\n%s", args, err, out)
				}
			}
			want([]string{`"authorization":"hush"`, `"url":"https://a.example/x?key=hush"`}, "show", "hook",
				"--secrets")
			want([]string{"headers 0,", "secrets 1\n"}, "set", "hook", "--webhook-drop-secrets",
				"--webhook-header=authorization=")
			refused("field webhook", "set", "hook", "--unset=webhook")
			want([]string{"webhook        none (default)"}, "set", "hook", "--unset=webhook,target")

			p := startOn(t, databaseURL, nil)
			var s struct {
				Version   int64           `json:"version"`
				ChangedBy string          `json:"changed_by"`
				Effective json.RawMessage `json:"effective"`
			}
			if _, _, err := p.decode(http.MethodGet, "/v1/applications/bank/settings", nil, &s); err != nil ||
				s.Version != 1 || s.ChangedBy != "ops" ||
				!strings.Contains(string(s.Effective), `"max_rings":3`) ||
				!strings.Contains(string(s.Effective), `"target":"stream"`) {
				t.Errorf("over HTTP: %+v, %v", s, err)
			}
		})
	}
}

// TestApplicationSetRefusesTextThatIsNotUTF8 gives bytes that are no text in a flag of each kind. The error names the
// flag, and nothing is stored.
func TestApplicationSetRefusesTextThatIsNotUTF8(t *testing.T) {
	t.Parallel()
	env := []string{"CLOCKD_DATABASE_URL=sqlite:" + t.TempDir() + "/clockd.db"}
	if out, code := typed(t, env, "migrate"); code != 0 {
		t.Fatal(out)
	}
	for _, flag := range []string{
		"--kafka-topic=rings\xff", "--webhook-url=https://a.example/\xff", "--webhook-secret=\xff", "--kafka=key=\xff",
		"--webhook-header=x-key=\xff", "--webhook-header=x-\xff=key", "--target=\xff", "--by=\xff",
	} {
		name, _, _ := strings.Cut(flag, "=")
		out, code := typed(t, env, "application", "set", "shop", "--max-rings=3", flag)
		if code != exitUsage || !strings.Contains(out, "clockd: "+name+": its value is not valid UTF-8\n") {
			t.Errorf("%q: exit code %d, printed %q", flag, code, out)
		}
	}
	if out, _ := typed(t, env, "application", "show", "shop"); !strings.Contains(out, "shop has no settings") {
		t.Errorf("the settings are %s", out)
	}
}

// A node without a broker says that it cannot ring applications of the broker. Their alarms wait. The alarms of other applications ring.
func TestNodeWithoutTheTargetHoldsItsAlarms(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	p := startOn(t, databaseURL, nil)
	setTargetOnly := func(target string) { application(t, databaseURL, "set", "shop", "--target="+target) }
	setTargetOnly("amqp")
	eventually(t, "readiness names the application", func() bool {
		details := p.details("settings", statusWarning)
		return len(details) == 1 && strings.Contains(details[0], "shop") &&
			strings.Contains(details[0], "no target amqp")
	})
	p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "1"), map[string]any{"delay": 0})
	p.must(http.StatusCreated, http.MethodPut, alarmPath("bank", "1"), map[string]any{"delay": 0})
	bank := p.listen("bank")
	awaitRung(t, bank, 1)
	if a := p.must(http.StatusOK, http.MethodGet, alarmPath("shop", "1"), nil); a.State != "scheduled" ||
		a.RetryTimes != 0 {
		t.Errorf("the alarm of shop: %+v", a)
	}
	setTargetOnly("stream")
	eventually(t, "readiness has no warning", func() bool { return len(p.details("settings", statusOK)) == 1 })
	awaitRung(t, p.listen("shop"), 1)
}

// Settings that this build cannot read may hold secrets under names that it does not know. No list shows them.
func TestSettingsThatCannotBeReadAreNotShown(t *testing.T) {
	t.Parallel()
	editor := settings.NewEditor(settings.EditorDeps{Form: settingsForm})
	view := editor.View(&settings.Version{Application: "shop", Version: 3, ChangedBy: "ops",
		Document: `{"webhook":{"later":1,"secrets":["whsec_secret"]}}`})
	v := settingsOf(&view)
	described, err := v.describe()
	if err == nil {
		t.Error("settings with an unknown field are described")
	}
	encoded, encodeErr := json.Marshal(v)
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	for name, shown := range map[string]string{
		"list": v.listed(), "show": described + err.Error(), "JSON": string(encoded),
	} {
		if strings.Contains(shown, "whsec_secret") || !strings.Contains(shown, "later") {
			t.Errorf("%s: %s", name, shown)
		}
	}
	if !strings.Contains(string(encoded), `"settings":null,"unreadable":"the settings cannot be read`) {
		t.Errorf("JSON: %s", encoded)
	}
}
