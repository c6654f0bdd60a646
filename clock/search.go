package clock

import "context"

// SearchQuery asks for alarms by a text that a person has: a business id, a message id, or the beginning of business
// ids.
type SearchQuery struct {
	Text        string
	Application string // only alarms of this application, and those whose business id begins with Text; empty: all applications, without prefixes
	Limit       int    // alarms, at most: 1 to MaxSearchLimit
	// Covers reports whether alarms of an application may be found; nil: of all applications.
	Covers func(application string) bool
}

// Limits of a search.
const (
	DefaultSearchLimit = 20
	MaxSearchLimit     = 100
	// searchedApplications is the number of applications that one step of a search looks into.
	searchedApplications = 100
)

// Validate returns an ErrInvalid that names the first offending field, or nil.
func (q *SearchQuery) Validate() error {
	if ValidateBusinessID(q.Text) != nil {
		return invalid(CodeInvalidValue, "q",
			"q must be a business id, a message id, or with application the beginning of a business id")
	}
	if q.Limit < 1 || q.Limit > MaxSearchLimit {
		return invalid(CodeOutOfRange, "limit", "limit must be from 1 to 100")
	}
	if q.Application == "" {
		return nil
	}
	return ValidateApplication(q.Application)
}

// admits reports whether alarms of the application may be found.
func (q *SearchQuery) admits(application string) bool {
	return (q.Application == "" || q.Application == application) && (q.Covers == nil || q.Covers(application))
}

// SearchStore is the part of a store that a Search reads.
type SearchStore interface {
	Directory
	List(ctx context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error)
	Keys(ctx context.Context, ids []int64) (map[int64]Key, error)
}

// Search finds alarms for people.
type Search struct{ store SearchStore }

// NewSearch returns a Search.
func NewSearch(store SearchStore) *Search { return &Search{store: store} }

// Find passes each found alarm to take once, without its attempts, until take returns false: first the alarm whose ring
// has the text as message id, then the alarms with the text as business id by application, then the alarms whose
// business id begins with the text. more reports that further alarms were found: Limit is reached, or take has returned
// false.
func (s *Search) Find(ctx context.Context, q SearchQuery, take func(*Alarm) bool) (more bool, err error) {
	if err := q.Validate(); err != nil {
		return false, err
	}
	f := finding{query: q, take: take, passed: map[Key]bool{}}
	for _, find := range []func(context.Context, *finding) error{s.byMessageID, s.byBusinessID, s.byPrefix} {
		if err := find(ctx, &f); err != nil {
			return false, err
		}
		if f.more {
			break
		}
	}
	return f.more, nil
}

// finding is a search under way.
type finding struct {
	query  SearchQuery
	take   func(*Alarm) bool
	passed map[Key]bool // alarms that take has had
	more   bool         // the search has ended early
}

// pass passes an alarm on. It returns false when the search has ended.
func (f *finding) pass(a *Alarm) bool {
	if f.more || f.passed[a.Key] {
		return !f.more
	}
	if len(f.passed) == f.query.Limit || !f.take(a) {
		f.more = true
		return false
	}
	f.passed[a.Key] = true
	return true
}

// byMessageID finds the alarm of a ring.
func (s *Search) byMessageID(ctx context.Context, f *finding) error {
	ring, err := ParseRingID(f.query.Text)
	if err != nil {
		return nil //nolint:nilerr // the text is no message id
	}
	keys, err := s.store.Keys(ctx, []int64{ring.AlarmID})
	if err != nil {
		return err
	}
	key, known := keys[ring.AlarmID]
	if !known || !f.query.admits(key.Application) {
		return nil
	}
	return s.passKeys(ctx, f, []Key{key})
}

// byBusinessID looks for the text in each application. Each step looks for the key in some applications, in the index
// of keys.
func (s *Search) byBusinessID(ctx context.Context, f *finding) error {
	if f.query.Application != "" {
		return s.passKeys(ctx, f, []Key{{Application: f.query.Application, BusinessID: f.query.Text}})
	}
	for after := ""; !f.more; {
		names, err := s.store.Applications(ctx, after, searchedApplications)
		if err != nil || len(names) == 0 {
			return err
		}
		keys := make([]Key, 0, len(names))
		for _, name := range names {
			if f.query.admits(name) {
				keys = append(keys, Key{Application: name, BusinessID: f.query.Text})
			}
		}
		if err := s.passKeys(ctx, f, keys); err != nil {
			return err
		}
		if len(names) < searchedApplications {
			return nil
		}
		after = names[len(names)-1]
	}
	return nil
}

// passKeys passes the alarms of the keys that exist.
func (s *Search) passKeys(ctx context.Context, f *finding, keys []Key) error {
	found, err := s.store.Find(ctx, keys)
	for i := range found {
		if !f.pass(&found[i]) {
			break
		}
	}
	return err
}

// byPrefix finds the alarms of one application whose business id begins with the text.
func (s *Search) byPrefix(ctx context.Context, f *finding) error {
	if f.query.Application == "" {
		return nil
	}
	// One alarm more than the limit shows whether further alarms follow. The alarm whose id is the text may have passed
	// already.
	list := ListQuery{Application: f.query.Application, Prefix: f.query.Text, DueAfter: NoInstant, DueBefore: NoInstant,
		Limit: f.query.Limit + 1}
	for {
		next, err := s.store.List(ctx, list, f.pass)
		if err != nil || next.IsZero() || f.more {
			return err
		}
		list.After = next
	}
}
