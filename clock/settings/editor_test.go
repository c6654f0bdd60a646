package settings_test

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// memory is a database with the versions of one application.
type memory struct {
	versions []settings.Version // oldest first
	between  func()             // called once, before a change is stored
	form     *settings.Form     // of the editors; nil: without keys
}

func (m *memory) Settings(_ context.Context, application string) (settings.Version, error) {
	if len(m.versions) == 0 {
		return settings.Version{Application: application, ChangedAt: clock.NoInstant}, nil
	}
	return m.versions[len(m.versions)-1], nil
}

func (m *memory) SettingsHistory(_ context.Context, _ string, limit int) ([]settings.Version, error) {
	newest := slices.Clone(m.versions)
	slices.Reverse(newest)
	return newest[:min(limit, len(newest))], nil
}

func (m *memory) ChangeSettings(ctx context.Context, c settings.Change) (settings.Version, error) {
	if between := m.between; between != nil {
		m.between = nil
		between()
	}
	before, _ := m.Settings(ctx, c.Application)
	if c.IfVersion != before.Version {
		return settings.Version{}, settings.OtherVersion(c.Application, before.Version, c.IfVersion)
	}
	v := settings.Version{Application: c.Application, Version: c.IfVersion + 1, Document: c.Document, ChangedAt: c.At,
		ChangedBy: c.By.Name}
	m.versions = append(m.versions, v)
	return v, nil
}

// stored returns the current document as it is stored.
func (m *memory) stored() string { return m.versions[len(m.versions)-1].Document }

func (m *memory) editor() *settings.Editor {
	return settings.NewEditor(settings.EditorDeps{
		Form: cmp.Or(m.form, form), Stored: m, DefaultTarget: clock.TargetStream,
		Now: func(context.Context) (clock.Instant, error) { return clock.Instant(1000 * (len(m.versions) + 1)), nil },
	})
}

func (m *memory) change(document string, ifVersion int64, by string) (settings.View, error) {
	return m.editor().Change(context.Background(), settings.Request{
		Application: "shop", Document: document, IfVersion: ifVersion, By: clock.Actor{Name: by}, Quotas: by == "ops",
	})
}

const full = `{"pigeon":{"place":"roof","note":"hush","size":"small","wait":"15s","birds":3,` +
	`"rings":{"a":"gold","b":"tin"},"seals":["wax","clay"]}}`

// seen returns a secret as people see it.
func seen(secret string) string {
	sum := sha256.Sum256([]byte(secret))
	return fmt.Sprintf(`"seal...%x"`, sum[:4])
}

// A value as people see it stands for the stored value. Another text replaces it.
func TestPeopleGiveBackWhatTheySee(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, change, with, want string }{
		{"all stays", ``, ``, full},
		{"another field changes", `"birds":3`, `"birds":4`, strings.Replace(full, `"birds":3`, `"birds":4`, 1)},
		{"a text changes", `"a":"..."`, `"a":"silver"`, strings.Replace(full, "gold", "silver", 1)},
		{"a text goes", `"a":"...",`, ``, strings.Replace(full, `"a":"gold",`, "", 1)},
		{"a redacted text changes", `h...`, `new`, strings.Replace(full, "hush", "new", 1)},
		{"a secret too much", `"seals":[`, `"seals":["gum",`, ""},
		{"the older secret goes", `,` + seen("clay"), ``, strings.Replace(full, `,"clay"`, "", 1)},
		{"the newer secret goes", seen("wax") + `,`, ``, strings.Replace(full, `"wax",`, "", 1)},
		{"a newer secret replaces one", seen("clay"), `"gum"`, strings.Replace(full, `"clay"`, `"gum"`, 1)},
		{"the secrets change places", seen("wax") + `,` + seen("clay"), seen("clay") + `,` + seen("wax"),
			strings.Replace(full, `"wax","clay"`, `"clay","wax"`, 1)},
	} {
		m := &memory{versions: []settings.Version{{Application: "shop", Version: 1, Document: full}}}
		shown, err := m.editor().Get(t.Context(), "shop")
		if err != nil || strings.Contains(shown.Document+shown.Effective, "gold") {
			t.Fatalf("%+v, %v", shown, err)
		}
		given := shown.Document
		if c.change != "" {
			if given = strings.Replace(given, c.change, c.with, 1); given == shown.Document {
				t.Fatalf("%s: %s has no %s", c.name, given, c.change)
			}
		}
		after, err := m.change(given, 1, "ops")
		if c.want == "" { // the form allows two seals
			if err == nil || m.stored() != full {
				t.Errorf("%s: three secrets are stored: %s", c.name, m.stored())
			}
			continue
		}
		if err != nil || m.stored() != c.want {
			t.Errorf("%s: %v, stored is\n%s, want\n%s", c.name, err, m.stored(), c.want)
		}
		version := int64(len(m.versions))
		if after.Version != version || (c.want == full) != (version == 1) {
			t.Errorf("%s: version %d", c.name, after.Version)
		}
	}
}

// A value as people see it is refused if none is stored: else the three dots would be stored.
func TestShownValuesWithoutAStoredOneAreRefused(t *testing.T) {
	t.Parallel()
	unreadable := settings.Version{Application: "shop", Version: 1, Document: `{"later":1}`}
	for _, c := range []struct {
		before    []settings.Version
		document  string
		field     string
		wantError bool
	}{
		{nil, `{"pigeon":{"place":"roof","seals":["seal..."]}}`, "pigeon.seals[0]", true},
		{nil, `{"pigeon":{"place":"roof","seals":[` + seen("wax") + `]}}`, "pigeon.seals[0]", true},
		{nil, `{"pigeon":{"place":"roof","rings":{"a":"..."},"seals":["wax"]}}`, "pigeon.rings.a", true},
		{nil, `{"pigeon":{"place":"roof","note":"h...","seals":["wax"]}}`, "pigeon.note", true},
		{[]settings.Version{unreadable}, `{"pigeon":{"place":"roof","seals":["seal..."]}}`, "pigeon.seals[0]", true},
		{[]settings.Version{unreadable}, `{"pigeon":{"place":"roof","seals":["wax"]}}`, "", false},
		{[]settings.Version{{Application: "shop", Version: 1, Document: full}},
			`{"pigeon":{"place":"roof","note":"x...","rings":{"a":"..."},"seals":["wax"]}}`, "pigeon.note", true},
		{[]settings.Version{{Application: "shop", Version: 1, Document: full}},
			`{"pigeon":{"place":"roof","note":"h...ed","seals":["wax"]}}`, "pigeon.note", true},
		{[]settings.Version{{Application: "shop", Version: 1, Document: full}},
			`{"pigeon":{"place":"roof","rings":{"a":"...","c":"..."},"seals":["wax"]}}`, "pigeon.rings.c", true},
		{[]settings.Version{{Application: "shop", Version: 1, Document: full}}, // the texts are for the roof
			`{"pigeon":{"place":"tower","rings":{"a":"..."},"seals":[` + seen("wax") + `]}}`, "pigeon.rings.a", true},
		{[]settings.Version{{Application: "shop", Version: 1, Document: full}},
			`{"pigeon":{"place":"tower","rings":{"a":"gold"},"seals":[` + seen("wax") + `]}}`, "", false},
	} {
		m := &memory{versions: c.before}
		_, err := m.change(c.document, settings.AnyVersion, "ops")
		var wrong *clock.Error
		if errors.As(err, &wrong) != c.wantError ||
			c.wantError && (wrong.Field != c.field || wrong.Code != clock.CodeInvalidValue) {
			t.Errorf("%s: %v", c.document, err)
		}
	}
}

// Who can read the stored values may send them elsewhere.
func TestTrustedEditorKeepsTextsForAnotherReceiver(t *testing.T) {
	t.Parallel()
	m := &memory{versions: []settings.Version{{Application: "shop", Version: 1, Document: full}}}
	e := m.editor()
	e.Trusted = true
	_, err := e.Change(t.Context(), settings.Request{Application: "shop", IfVersion: 1,
		Document: `{"pigeon":{"place":"tower","rings":{"a":"..."},"seals":["wax"]}}`})
	if err != nil || !strings.Contains(m.stored(), `"rings":{"a":"gold"}`) {
		t.Errorf("%v, stored is %s", err, m.stored())
	}
}

// A repeat is made of the version that the condition names, so it is known whatever it refers to.
func TestRepeatsAreMadeOfTheirVersion(t *testing.T) {
	t.Parallel()
	m := &memory{versions: []settings.Version{{Application: "shop", Version: 1, Document: full}}}
	newer := strings.Replace(full, `"wax","clay"`, `"gum",`+seen("wax"), 1)
	for try := range 2 {
		if v, err := m.change(newer, 1, "ops"); err != nil || v.Version != 2 {
			t.Errorf("try %d: %+v, %v", try, v, err)
		}
	}
	if want := strings.Replace(full, `"wax","clay"`, `"gum","wax"`, 1); m.stored() != want {
		t.Errorf("stored is %s", m.stored())
	}
	// Version 2 has another text. The reader of version 1 asks for the text of version 1.
	m = &memory{versions: []settings.Version{
		{Application: "shop", Version: 1, Document: full},
		{Application: "shop", Version: 2, Document: strings.Replace(full, "gold", "silver", 1)},
	}}
	if v, err := m.change(strings.Replace(full, "gold", "...", 1), 1, "ops"); !errors.Is(err, clock.ErrPrecondition) {
		t.Errorf("%+v, %v", v, err)
	}
}

// A condition names the version that the document was made of. The repeat of a change is known by its content. A change
// that changes nothing makes no version.
func TestChangesHoldTheirCondition(t *testing.T) {
	t.Parallel()
	m := &memory{}
	steps := []struct {
		document  string
		ifVersion int64
		by        string
		version   int64 // after it; 0: refused
	}{
		{`{}`, 1, "ops", 0}, {`{"max_rings":3}`, 0, "ops", 1},
		{`{"max_rings":3}`, 0, "ops", 1}, // a repeat

		{`{ "max_rings": 3 }`, 1, "others", 1},                // nothing to change
		{`{"max_rings":3}`, settings.AnyVersion, "others", 1}, // nor here
		{`{"max_rings":4}`, 0, "ops", 0}, {`{"max_rings":0}`, 0, "ops", 0}, {`{}`, 1, "ops", 2},
		{`{"max_rings":3}`, 0, "ops", 0}, // two versions later it is no repeat
		{`{"max_rings":5}`, settings.AnyVersion, "ops", 3},
	}
	for i, s := range steps {
		v, err := m.change(s.document, s.ifVersion, s.by)
		if refused := errors.Is(err, clock.ErrPrecondition); refused != (s.version == 0) || v.Version != s.version {
			t.Errorf("step %d: version %d, %v, want %d", i, v.Version, err, s.version)
		}
	}
	if history, _ := m.editor().History(t.Context(), "shop", 10); len(history) != 3 || history[0].ChangedAt != 3000 {
		t.Errorf("history: %+v", history)
	}
}

// The pauses are those of the newest 100 versions. A version that cannot be read tells nothing.
func TestVersionsTellThePausesOfAnApplication(t *testing.T) {
	t.Parallel()
	m := &memory{}
	pauses := func() (told []string) {
		t.Helper()
		all, err := m.editor().Pauses(t.Context(), "shop")
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range all {
			told = append(told, fmt.Sprint(p.At.Time().Unix(), " ", p.By, " ", p.Paused))
		}
		return told
	}
	set := func(document string) {
		m.versions = append(m.versions, settings.Version{
			Application: "shop", Version: int64(len(m.versions) + 1), Document: document, ChangedBy: "ann",
			ChangedAt: clock.Instant(1000 * (len(m.versions) + 1)),
		})
	}
	if got := pauses(); len(got) != 0 {
		t.Errorf("without settings: %q", got)
	}
	for _, document := range []string{
		`{"paused":true}`, `{"paused":true,"max_rings":3}`, `{"paused":"yes"}`, `{"max_rings":3}`, `{}`, `{"paused":true}`,
	} {
		set(document)
	}
	want := []string{"1 ann true", "4 ann false", "6 ann true"}
	if got := pauses(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	for len(m.versions) < 104 {
		set(`{"paused":true}`)
	}
	if got := pauses(); !slices.Equal(got, want[2:]) {
		t.Errorf("of the newest versions: got %q, want %q", got, want[2:])
	}
}

// Without the right to quotas a person changes everything else.
func TestQuotasNeedTheirRight(t *testing.T) {
	t.Parallel()
	m := &memory{}
	for i, step := range []struct {
		document, by string
		version      int64 // after it; 0: refused
	}{
		{`{"quotas":{"pending_alarms":5}}`, "tenant", 0}, {`{"quotas":{"pending_alarms":5}}`, "ops", 1},
		{`{"max_rings":3}`, "tenant", 0}, {`{}`, "tenant", 0},
		{`{"max_rings":3,"quotas":{"pending_alarms":5}}`, "tenant", 2}, {`{"quotas":{"pending_alarms":6}}`, "tenant", 0},
		{`{"max_rings":4,"quotas":{}}`, "ops", 3}, {`{"max_rings":5}`, "tenant", 4},
	} {
		v, err := m.change(step.document, settings.AnyVersion, step.by)
		if errors.Is(err, clock.ErrForbidden) != (step.version == 0) || v.Version != step.version {
			t.Errorf("step %d: version %d, %v", i, v.Version, err)
		}
	}
	m.versions = append(m.versions, settings.Version{Application: "shop", Version: 5, Document: `{"later":1}`})
	if _, err := m.change(`{}`, settings.AnyVersion, "tenant"); !errors.Is(err, clock.ErrForbidden) {
		t.Errorf("over settings that cannot be read: %v", err)
	}
}

// A change without a condition is made of the version that comes between. One with a condition is refused.
func TestChangesBetweenAreNotLost(t *testing.T) {
	t.Parallel()
	for _, ifVersion := range []int64{settings.AnyVersion, 1} {
		m := &memory{versions: []settings.Version{{Application: "shop", Version: 1, Document: full}}}
		m.between = func() {
			if _, err := m.change(strings.Replace(full, "gold", "silver", 1), 1, "others"); err != nil {
				t.Error(err)
			}
		}
		shown, _ := m.editor().Get(t.Context(), "shop")
		_, err := m.change(strings.Replace(shown.Document, `"birds":3`, `"birds":5`, 1), ifVersion, "ops")
		want := strings.NewReplacer("gold", "silver", `"birds":3`, `"birds":5`).Replace(full)
		if ifVersion == settings.AnyVersion && (err != nil || m.stored() != want) {
			t.Errorf("%v, stored is %s", err, m.stored())
		}
		if ifVersion == 1 && (!errors.Is(err, clock.ErrPrecondition) || strings.Contains(m.stored(), `"birds":5`)) {
			t.Errorf("%v, stored is %s", err, m.stored())
		}
	}
}

// A document that would be too long to be read again is refused, also if the given one is shorter.
func TestDocumentsThatGrowAreRefused(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("<", settings.MaxDocument/4) // each takes six bytes in the stored document
	m := &memory{}
	_, err := m.change(fmt.Sprintf(`{"pigeon":{"place":"roof","rings":{"a":%q},"seals":["wax"]}}`, long), 0, "ops")
	wrong, is := errors.AsType[*clock.Error](err)
	if !is || wrong.Code != clock.CodeOutOfRange || len(m.versions) != 0 {
		t.Errorf("%v, %d versions", err, len(m.versions))
	}
}

// No document makes Revise panic. Its result can be read, and is the same again when it is given back as people see it.
func FuzzRevise(f *testing.F) {
	before, err := form.Parse(full)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(form.Redacted(&before))
	f.Add(full)
	f.Add(`{"pigeon":{"place":"a","note":"h...","rings":{"a":"..."},"seals":["seal...","seal..."]}}`)
	f.Add(`{"owl":{"tree":null},"pigeon":null,"paused":true}`)
	f.Fuzz(func(t *testing.T, document string) {
		after, err := form.Revise(&before, document, false)
		if err != nil {
			if !errors.Is(err, clock.ErrInvalid) {
				t.Errorf("%v", err)
			}
			return
		}
		s, err := form.Parse(after)
		if err != nil {
			t.Fatalf("%s becomes %s: %v", document, after, err)
		}
		if loft := pigeon.Of(&s); loft != nil {
			for _, text := range loft.Rings {
				if text == "..." {
					t.Errorf("%s becomes %s", document, after)
				}
			}
		}
		if again, err := form.Revise(&s, form.Redacted(&s), false); err != nil || again != after {
			t.Errorf("%s is shown as %s, which becomes %s: %v", after, form.Redacted(&s), again, err)
		}
	})
}
