package settings_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// keyText returns the text of a key, another one for each letter.
func keyText(letter string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Repeat(letter, 32)))
}

// keyed returns the form with the keys of the letters. The first seals.
func keyed(letters ...string) *settings.Form {
	texts := make([]string, len(letters))
	for i, letter := range letters {
		texts[i] = keyText(letter)
	}
	keys, err := settings.ParseKeys(strings.Join(texts, "\n"))
	if err != nil {
		panic(err)
	}
	return form.WithKeys(keys)
}

// sealed returns what the form stores for a document of shop.
func sealed(t *testing.T, f *settings.Form, document string) string {
	t.Helper()
	stored, err := f.Seal("shop", document)
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

// ciphertext returns the decoded part of a sealed document which the key opens.
func ciphertext(t *testing.T, stored string) []byte {
	t.Helper()
	var members struct{ Sealed struct{ Document []byte } }
	if err := json.Unmarshal([]byte(stored), &members); err != nil || len(members.Sealed.Document) == 0 {
		t.Fatalf("%s: %v", stored, err)
	}
	return members.Sealed.Document
}

// A sealed document shows what people see, and nothing else. The key opens it.
func TestSealedDocumentsHideWhatPeopleDoNotSee(t *testing.T) {
	t.Parallel()
	for _, document := range []string{
		full,
		strings.Replace(full, `"b":"tin"`, `"sealed":"<>&\u2028"`, 1),
		strings.Replace(full, `"b":"tin"`, `"sealed":"{\"key\":\"\",\"document\":null}"`, 1),
		`{"target":"webhook",` + full[1:],
	} {
		s, err := form.Parse(document)
		if err != nil {
			t.Fatal(err)
		}
		stored := sealed(t, keyed("a"), document)
		if shown := form.Redacted(&s); !strings.HasPrefix(stored, strings.TrimSuffix(shown, "}")+`,"sealed":{"key":"`) {
			t.Errorf("%s is stored as %s", document, stored)
		}
		for _, hidden := range []string{`"gold`, `"tin`, `"wax`, `"hush`} { // base64 has no quotes
			if strings.Contains(stored, hidden) || bytes.Contains(ciphertext(t, stored), []byte(hidden)) {
				t.Errorf("%s is in %s", hidden, stored)
			}
		}
		if again := sealed(t, keyed("a"), document); again == stored {
			t.Errorf("the same text twice: %s", stored)
		}
		for _, f := range []*settings.Form{keyed("a"), keyed("b", "a")} {
			loaded, err := f.Load(&settings.Version{Application: "shop", Document: stored})
			if err != nil || !reflect.DeepEqual(loaded, s) {
				t.Errorf("%s is read as %+v, %v", stored, loaded, err)
			}
			if opened, err := f.Open("shop", stored); err != nil || opened != document {
				t.Errorf("%s is opened as %s, %v", stored, opened, err)
			}
		}
	}
}

// What hides nothing is stored as it is, and so is everything without a key.
func TestWhatHidesNothingIsNotSealed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		form     *settings.Form
		document string
	}{
		{keyed("a"), `{}`}, {keyed("a"), `{"max_rings":3,"owl":{"hole":"h"},"paused":true}`}, {form, full},
		{form.WithKeys(settings.Keys{}), full},
	} {
		if stored := sealed(t, c.form, c.document); stored != c.document {
			t.Errorf("%s is stored as %s", c.document, stored)
		}
		if again, err := c.form.Reseal("shop", c.document); err != nil || again != c.document {
			t.Errorf("%s becomes %s, %v", c.document, again, err)
		}
	}
	if _, err := keyed("a").Seal("shop", `{"later":1}`); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("a document that cannot be read is sealed: %v", err)
	}
}

// A sealed document that was changed, belongs to another application, or has another key is not opened.
func TestSealedDocumentsAreNotTakenForOthers(t *testing.T) {
	t.Parallel()
	stored := sealed(t, keyed("a"), full)
	shown, box, _ := strings.Cut(stored, `,"sealed":`)
	box = `"sealed":` + box
	for name, c := range map[string]struct {
		form        *settings.Form
		application string
		stored      string
		says        string
	}{
		"no key":              {form, "shop", stored, "is not given"},
		"another key":         {keyed("b", "c"), "shop", stored, "is not given"},
		"another application": {keyed("a"), "till", stored, "another application"},
		"another place":       {keyed("a"), "shop", strings.Replace(stored, `"roof"`, `"tower"`, 1), "changed"},
		"a member more":       {keyed("a"), "shop", strings.Replace(stored, `{`, `{"paused":true,`, 1), "changed"},
		"no members":          {keyed("a"), "shop", `{` + box, "changed"},
		"a bit":               {keyed("a"), "shop", strings.Replace(stored, `"document":"`, `"document":"A`, 1), "changed"},
		"blanks":              {keyed("a"), "shop", strings.Replace(stored, `,"sealed":`, `, "sealed":`, 1), "changed"},
		"not the last member": {keyed("a"), "shop", `{` + strings.TrimSuffix(box, `}`) + `,` + stored[1:], "changed"},
		"no text":             {keyed("a"), "shop", `{"paused":true,"sealed":null}`, "changed"},
		"a number":            {keyed("a"), "shop", `{"paused":true,"sealed":7}`, "changed"},
		"cut off":             {keyed("a"), "shop", shown + "}", "has ..."},
		"too long": {keyed("a"), "shop", strings.Replace(stored, `{`, `{`+strings.Repeat(" ", 64<<10), 1),
			"at most"},
	} {
		s, err := c.form.Load(&settings.Version{Application: c.application, Document: c.stored})
		wrong, is := errors.AsType[*clock.Error](err)
		if !is || wrong.Field != "sealed" && wrong.Field != "" && name != "cut off" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %+v", name, err, s)
		}
		if again, err := c.form.Reseal(c.application, c.stored); err == nil && name != "cut off" {
			t.Errorf("%s: sealed again as %s", name, again)
		}
	}
}

// The first key seals plain documents, and documents of another key.
func TestResealFollowsTheFirstKey(t *testing.T) {
	t.Parallel()
	stored := full
	for _, step := range []struct {
		form  *settings.Form
		alone string // the key that opens it afterwards
		same  bool
	}{
		{keyed("a"), "a", false}, {keyed("a"), "a", true}, {keyed("a", "b"), "a", true},
		{keyed("b", "a"), "b", false}, {keyed("b", "a"), "b", true}, {keyed("b"), "b", true},
	} {
		after, err := step.form.Reseal("shop", stored)
		if err != nil || (after == stored) != step.same {
			t.Fatalf("%s becomes %s, %v", stored, after, err)
		}
		if opened, err := keyed(step.alone).Open("shop", after); err != nil || opened != full {
			t.Errorf("%s is opened as %s, %v", after, opened, err)
		}
		stored = after
	}
	// A newer build may have sealed what this one cannot read.
	later := strings.Replace(full, `"birds":3`, `"birds":99`, 1)
	lax := sealed(t, keyed("a"), full)
	if _, err := keyed("b", "a").Reseal("shop", later); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("%s is sealed: %v", later, err)
	}
	if _, err := keyed("b").Reseal("shop", lax); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("sealed without its key: %v", err)
	}
}

// The errors of keys say which one is wrong, and show none.
func TestWrongKeysAreNamed(t *testing.T) {
	t.Parallel()
	secret := "hushhushhushhushhushhushhushhush"
	var manyKeys string
	for letter := range strings.SplitSeq("abcdefghijklmnopq", "") {
		manyKeys += keyText(letter) + "\n"
	}
	for _, c := range []struct{ text, says string }{
		{secret, "key 1: a key must be 32 random bytes"},
		{keyText("a") + " " + secret, "key 2: a key must be"},
		{keyText("a") + "\n" + keyText("b") + "\n" + keyText("a"), "key 3 comes twice"},
		{base64.StdEncoding.EncodeToString([]byte(secret))[:40], "key 1:"},
		{base64.RawStdEncoding.EncodeToString([]byte(secret)), "key 1:"},
		{strings.Repeat("A", 42) + "B=", "key 1:"}, // bits beyond the last byte
		{" \n", "a key must be"},
		{manyKeys, "at most 16 keys"},
	} {
		_, err := settings.ParseKeys(c.text)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", c.text, err)
		}
	}
	if keys, err := settings.ParseKeys(""); err != nil || !reflect.DeepEqual(keys, settings.Keys{}) {
		t.Errorf("no keys: %v", err)
	}
	text := fmt.Sprintf("%v %+v %#v", keyed("a"), keyed("a"), keyed("a"))
	if strings.Contains(text, strings.Repeat("61", 8)) || strings.Contains(text, "aaaaaaaa") {
		t.Errorf("a key is shown: %s", text)
	}
}

// People change sealed settings like others: shown values stay, and the repeat of a change is known.
func TestSealedSettingsChangeAsOthers(t *testing.T) {
	t.Parallel()
	m := &memory{form: keyed("a")}
	for i, step := range []struct {
		document  string
		ifVersion int64
		version   int64
	}{
		{full, 0, 1}, {full, 0, 1}, {full, 1, 1}, {strings.Replace(full, "gold", "...", 1), 1, 1},
		{strings.Replace(full, `"gold"`, `"silver"`, 1), 1, 2}, {strings.Replace(full, `"gold"`, `"silver"`, 1), 1, 2},
	} {
		v, err := m.change(step.document, step.ifVersion, "ops")
		if err != nil || v.Version != step.version || strings.Contains(m.stored(), "wax\"") {
			t.Errorf("step %d: %+v, %v, stored is %s", i, v, err, m.stored())
		}
	}
	// The key changes. A change that changes nothing does not seal again.
	m.form = keyed("b", "a")
	shown, err := m.editor().Get(t.Context(), "shop")
	if v, changeErr := m.change(shown.Document, 2, "ops"); err != nil || changeErr != nil || v.Version != 2 {
		t.Errorf("%v, %v, %+v", err, changeErr, v)
	}
	v, err := m.change(strings.Replace(shown.Document, `"birds":3`, `"birds":4`, 1), 2, "ops")
	if err != nil || v.Version != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	want := strings.NewReplacer("gold", "silver", `"birds":3`, `"birds":4`).Replace(full)
	if opened, err := keyed("b").Open("shop", m.stored()); err != nil || opened != want {
		t.Errorf("stored is %s, %v", opened, err)
	}
	// Without the key nothing of it stays, and it is not shown.
	m.form = form
	view, err := m.editor().Get(t.Context(), "shop")
	if err != nil || view.Unreadable == nil || view.Document != "" ||
		!strings.Contains(view.Unreadable.Error(), "CLOCKD_SECRET_KEY_FILE") {
		t.Errorf("%+v, %v", view, err)
	}
	if _, err := m.change(shown.Document, 3, "ops"); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("a shown value stays without the key: %v", err)
	}
	if _, err := m.change(m.stored(), 3, "ops"); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("a person gives a sealed document: %v", err)
	}
}

// A node without the key keeps the last known settings. One with it knows which settings are to be sealed.
func TestWatchKnowsWhatIsToBeSealed(t *testing.T) {
	t.Parallel()
	table := &settingsTable{}
	table.put("plain", full)
	table.put("open", `{"max_rings":2}`)
	table.put("shop", sealed(t, keyed("a"), full))
	for name, c := range map[string]struct {
		form     *settings.Form
		outdated string
		readable bool
	}{
		"no key": {form, "[]", false}, "the key": {keyed("a"), "[plain]", true},
		"a new key": {keyed("b", "a"), "[plain shop]", true}, "another key": {keyed("b"), "[plain]", false},
	} {
		w := settings.NewWatch(c.form, table, slog.New(slog.DiscardHandler))
		if err := w.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(w.Outdated()); got != c.outdated {
			t.Errorf("%s: outdated are %s", name, got)
		}
		shop := w.Snapshot().Of("shop")
		if (shop.Unreadable == nil) != c.readable || c.readable != (pigeon.Of(&shop.Settings) != nil) {
			t.Errorf("%s: %+v", name, shop)
		}
	}
}

// A Watch knows the applications whose pending alarms are counted.
func TestWatchKnowsTheQuotasOfPendingAlarms(t *testing.T) {
	t.Parallel()
	table := &settingsTable{}
	for application, document := range map[string]string{
		"b": `{"quotas":{"pending_alarms":5}}`, "a": `{"quotas":{"pending_alarms":1}}`, "c": `{"quotas":{"sets_per_second":5}}`,
		"d": `{}`,
	} {
		table.put(application, document)
	}
	w := settings.NewWatch(form, table, slog.New(slog.DiscardHandler))
	if names := w.WithPendingQuota(); len(names) != 0 {
		t.Errorf("before the first read: %q", names)
	}
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if names := fmt.Sprint(w.WithPendingQuota()); names != "[a b]" {
		t.Errorf("applications with the quota: %s", names)
	}
}

// No stored text makes Open panic. It returns a document that Seal has sealed, or the text itself.
func FuzzOpen(f *testing.F) {
	form := keyed("b", "a")
	stored, err := keyed("a").Seal("shop", full)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		stored, full, `{"sealed":{}}`, `{"a":1,"sealed":{"key":"","document":null}}`, `{`, ``,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		opened, err := form.Open("shop", text)
		switch {
		case err != nil && !errors.Is(err, clock.ErrInvalid):
			t.Errorf("%v", err)
		case err == nil && opened != text && opened != full:
			t.Errorf("%s is opened as %s", text, opened)
		}
		_, _ = form.Reseal("shop", text)
	})
}

func FuzzParseKeys(f *testing.F) {
	f.Add(keyText("a") + "\n" + keyText("b"))
	f.Add("x")
	f.Fuzz(func(t *testing.T, text string) {
		keys, err := settings.ParseKeys(text)
		if err != nil {
			return
		}
		stored, err := form.WithKeys(keys).Seal("shop", full)
		if opened, openErr := form.WithKeys(keys).Open("shop", stored); err != nil || openErr != nil || opened != full {
			t.Errorf("%q: %v, %v, %s", text, err, openErr, opened)
		}
	})
}
