package settings

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// View is a version of an application's settings as people and programs see it: without secrets.
type View struct {
	Application string
	Version     int64         // 0: the application never had settings
	ChangedAt   clock.Instant // clock.NoInstant for version 0
	ChangedBy   string        // empty for version 0
	Document    string        // JSON; Editor.Change takes it back. Empty if the settings cannot be read
	Effective   string        // JSON with what applies for each member; empty if the settings cannot be read
	Unreadable  error         // why the settings cannot be read; of the document it has at most names and choices
}

// Applied says what a node applies for an application.
type Applied struct {
	Version       int64            // version of the settings; 0: the defaults
	Target        clock.TargetKind // where rings go; NoTarget: nowhere, the alarms wait
	Subscribable  bool             // the stream takes subscribers: rings may go there, or did so a short time ago
	Reservable    bool             // workers may reserve the application's rings: alarms may ring to the target pull
	DefaultTarget clock.TargetKind // where the rings of applications go whose settings name no target
}

// Stored is the part of the database that an Editor uses.
type Stored interface {
	Settings(ctx context.Context, application string) (Version, error)
	SettingsHistory(ctx context.Context, application string, limit int) ([]Version, error)
	ChangeSettings(ctx context.Context, change Change) (Version, error)
}

// EditorDeps are the parts of an Editor.
type EditorDeps struct {
	Form   *Form
	Stored Stored
	Now    func(ctx context.Context) (clock.Instant, error) // database's time
	// Trusted says that the persons can read the stored values anyway. Then they stay also for another receiver.
	Trusted bool
	// DefaultTarget is where the rings of applications go whose settings name no target. NoTarget: it depends on the
	// node.
	DefaultTarget clock.TargetKind
}

// Editor reads and changes settings for people and programs. Each of its calls reads the database.
type Editor struct{ EditorDeps }

// NewEditor returns an Editor.
func NewEditor(deps EditorDeps) *Editor { return &Editor{deps} }

// Get returns the current settings of the application.
func (e *Editor) Get(ctx context.Context, application string) (View, error) {
	v, err := e.Stored.Settings(ctx, application)
	if err != nil {
		return View{}, err
	}
	return e.View(&v), nil
}

// History returns at most limit versions, the newest first.
func (e *Editor) History(ctx context.Context, application string, limit int) ([]View, error) {
	versions, err := e.Stored.SettingsHistory(ctx, application, limit)
	if err != nil {
		return nil, err
	}
	views := make([]View, len(versions))
	for i := range versions {
		views[i] = e.View(&versions[i])
	}
	return views, nil
}

// pauseVersions is the number of versions that Pauses looks at.
const pauseVersions = 100

// Pauses returns when people paused and resumed the application, the oldest first, as the newest versions of its
// settings tell. Versions that cannot be read tell nothing.
func (e *Editor) Pauses(ctx context.Context, application string) ([]clock.ApplicationPause, error) {
	versions, err := e.Stored.SettingsHistory(ctx, application, pauseVersions)
	if err != nil {
		return nil, err
	}
	var pauses []clock.ApplicationPause
	var before *Settings // nil: not known
	for _, v := range slices.Backward(versions) {
		s, err := e.parse(&v)
		if err != nil {
			continue
		}
		if v.Version == 1 {
			before = &Settings{}
		}
		if before != nil && s.Paused != before.Paused {
			pauses = append(pauses, clock.ApplicationPause{At: v.ChangedAt, By: v.ChangedBy, Paused: s.Paused})
		}
		before = &s
	}
	return pauses, nil
}

// Request asks that an application's settings become a document.
type Request struct {
	Application string
	Document    string // a value that people do not see may be given as they see it: then the stored value stays
	IfVersion   int64  // condition on the version; AnyVersion: none
	By          clock.Actor
	Quotas      bool // the person may change quotas: else an admin of one application would lift its own
}

// longestPause is the longest pause between two tries of a change without a condition. Each further try follows another
// person's change.
const longestPause = 50 * time.Millisecond

// Change makes the next version of the application's settings. A document that changes nothing makes none, nor does the
// repeat of a change with a condition: then the next version already has its document. A *clock.Error of kind
// clock.ErrInvalid names the field at fault; clock.ErrPrecondition says that the settings have another version.
func (e *Editor) Change(ctx context.Context, r Request) (View, error) {
	for {
		v, err := e.change(ctx, r)
		switch {
		case err == nil:
			return e.View(&v), nil
		case r.IfVersion != AnyVersion || !errors.Is(err, clock.ErrPrecondition):
			return View{}, err
		}
		select {
		case <-time.After(rand.N(longestPause)):
		case <-ctx.Done():
			return View{}, clock.Unavailable(ctx.Err())
		}
	}
}

// change changes the version that it reads, because the document may refer to values of it.
func (e *Editor) change(ctx context.Context, r Request) (Version, error) {
	before, err := e.Stored.Settings(ctx, r.Application)
	if err != nil {
		return Version{}, err
	}
	if r.IfVersion != AnyVersion && r.IfVersion != before.Version {
		return e.repeated(ctx, r, &before)
	}
	was, unreadable := e.parse(&before) // of unreadable settings only the numbers of destinations stay
	document, err := e.revise(r, &was, unreadable)
	if err != nil {
		return Version{}, err
	}
	if unreadable == nil && before.Version > 0 && document == e.Form.Encode(&was) {
		return before, nil
	}
	stored, err := e.Form.Seal(r.Application, document)
	if err != nil {
		return Version{}, err
	}
	now, err := e.Now(ctx)
	if err != nil {
		return Version{}, err
	}
	return e.Stored.ChangeSettings(ctx, Change{
		Application: r.Application, Document: stored, At: now, By: r.By, IfVersion: before.Version,
	})
}

// revise returns the document to store for the request. The settings before it may be unreadable.
func (e *Editor) revise(r Request, was *Settings, unreadable error) (string, error) {
	document, err := e.Form.Revise(was, r.Document, e.Trusted)
	if err != nil {
		return "", err
	}
	if unreadable == nil && document == e.Form.Encode(was) {
		return document, nil
	}
	return document, e.checkQuotas(r, was, unreadable, document)
}

// checkQuotas refuses a document with other quotas than before, if the person may not change them.
func (e *Editor) checkQuotas(r Request, was *Settings, unreadable error, document string) error {
	if r.Quotas {
		return nil
	}
	next, err := e.Form.Parse(document)
	if err != nil {
		return err
	}
	if unreadable == nil && next.Quotas == was.Quotas {
		return nil
	}
	detail := "quotas change only with a token for all applications, so the settings must have the present quotas"
	if unreadable != nil {
		detail = "the present settings cannot be read, so they change only with a token for all applications: they may have quotas"
	}
	return &clock.Error{Kind: clock.ErrForbidden, Code: clock.CodeForbidden, Field: "quotas", Detail: detail}
}

// repeated returns the current version if it is what the request makes of the version before: the request is a repeat.
// Else it returns an error, because the condition does not hold.
func (e *Editor) repeated(ctx context.Context, r Request, current *Version) (Version, error) {
	refused := OtherVersion(r.Application, current.Version, r.IfVersion)
	if r.IfVersion != current.Version-1 {
		return Version{}, refused
	}
	base := Version{Application: r.Application}
	if r.IfVersion > 0 {
		history, err := e.Stored.SettingsHistory(ctx, r.Application, 2)
		if err != nil {
			return Version{}, err
		}
		if len(history) < 2 || history[0].Version != current.Version {
			return Version{}, refused
		}
		base = history[1]
	}
	was, _ := e.parse(&base)
	document, err := e.Form.Revise(&was, r.Document, e.Trusted)
	is, unreadable := e.parse(current)
	if err != nil || unreadable != nil || document != e.Form.Encode(&is) {
		return Version{}, refused
	}
	return *current, nil
}

// parse reads the document of a version.
func (e *Editor) parse(v *Version) (Settings, error) {
	if v.Version == 0 {
		return Settings{}, nil
	}
	s, err := e.Form.Load(v)
	if err != nil {
		s.numbered = numberedIn(v.Document)
	}
	return s, err
}

// named adds the field at fault to the text of an error.
func named(err error) error {
	wrong, is := errors.AsType[*clock.Error](err)
	if !is || strings.Contains(wrong.Detail, wrong.Field) {
		return err
	}
	return fmt.Errorf("%w (field %s)", err, wrong.Field)
}

// View returns a stored version as people see it.
func (e *Editor) View(v *Version) View {
	view := View{Application: v.Application, Version: v.Version, ChangedAt: v.ChangedAt, ChangedBy: v.ChangedBy}
	s, err := e.parse(v)
	if err != nil {
		view.Unreadable = named(err)
		return view
	}
	view.Document, view.Effective = e.Form.Redacted(&s), e.Form.Effective(&s, e.DefaultTarget)
	return view
}
