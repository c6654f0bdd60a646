package clock

import (
	"context"
	"slices"
)

// RepeatingStore is the part of a store that RepeatingAlarms reads.
type RepeatingStore interface {
	RepeatingReader
	List(ctx context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error)
}

// RepeatingAlarms lists the repeating alarms of one application or of all.
type RepeatingAlarms struct{ store RepeatingStore }

// NewRepeatingAlarms returns RepeatingAlarms.
func NewRepeatingAlarms(store RepeatingStore) *RepeatingAlarms { return &RepeatingAlarms{store: store} }

// Bounds of one call of List.
const (
	listedApplications = 100  // applications that it looks into
	listedAlarms       = 2000 // repeating alarms that it looks at
)

// List passes repeating alarms to take, without attempts, by application and business id, until take returns false. q
// may have no application: then the list has the alarms of all applications that covers admits. next is where the list
// goes on; zero: no alarm follows. It names no other application.
func (r *RepeatingAlarms) List(
	ctx context.Context, q ListQuery, covers func(application string) bool, take func(*Alarm) bool,
) (next ListPosition, err error) {
	l := repeatingList{query: q, take: take}
	if err := l.checkPosition(); err != nil {
		return next, err
	}
	if q.Application != "" {
		return r.listOf(ctx, &l, q.Application, q.After.BusinessID)
	}
	application, businessID := q.After.Application, q.After.BusinessID
	if application == "" || !covers(application) {
		businessID = ""
		if application, err = r.nextCovered(ctx, application, covers); err != nil {
			return next, err
		}
	}
	for looked := 1; application != ""; looked++ {
		end, err := r.listOf(ctx, &l, application, businessID)
		if err != nil {
			return next, err
		}
		if !end.IsZero() || l.refused {
			return ListPosition{Application: application, BusinessID: end.BusinessID}, nil
		}
		businessID = ""
		if application, err = r.nextCovered(ctx, application, covers); err != nil {
			return next, err
		}
		if application != "" && (l.full() || looked == listedApplications) {
			return ListPosition{Application: application}, nil
		}
	}
	return next, nil
}

// nextCovered returns the first application with repeating alarms after a name that covers admits, "" if there is none.
// It reads all names, however few are covered.
func (r *RepeatingAlarms) nextCovered(
	ctx context.Context, after string, covers func(application string) bool,
) (string, error) {
	for size := 1; ; size = listedApplications { // mostly the next one is covered
		names, err := r.store.RepeatingApplications(ctx, after, size)
		if err != nil {
			return "", err
		}
		if i := slices.IndexFunc(names, covers); i >= 0 {
			return names[i], nil
		}
		if len(names) < size {
			return "", nil
		}
		after = names[len(names)-1]
	}
}

// listOf passes alarms of one application, behind a business id.
func (r *RepeatingAlarms) listOf(
	ctx context.Context, l *repeatingList, application, after string,
) (end ListPosition, err error) {
	for {
		q := ListQuery{
			Application: application, Prefix: l.query.Prefix, Repeating: true, DueAfter: NoInstant, DueBefore: NoInstant,
			After: ListPosition{BusinessID: after}, Limit: min(MaxListLimit, l.left()),
		}
		before := l.looked
		end, err = r.store.List(ctx, q, l.pass)
		if err != nil || end.IsZero() || l.refused || l.full() || l.looked-before < q.Limit {
			return end, err
		}
		after = end.BusinessID
	}
}

// repeatingList is a list under way.
type repeatingList struct {
	query   ListQuery
	take    func(*Alarm) bool
	looked  int  // alarms that were looked at
	passed  int  // alarms that take has accepted
	refused bool // take has refused an alarm
}

// full reports whether one of the bounds is reached.
func (l *repeatingList) full() bool { return l.passed == l.query.Limit || l.looked == listedAlarms }

// left returns the number of alarms that the list may still look at. Without a filter it takes each of them.
func (l *repeatingList) left() int {
	left := listedAlarms - l.looked
	if len(l.query.States) == 0 && l.query.DueAfter == NoInstant && l.query.DueBefore == NoInstant {
		left = min(left, l.query.Limit-l.passed)
	}
	return left
}

// pass passes an alarm to take if the query selects it. It returns false if the list has ended before the alarm.
func (l *repeatingList) pass(a *Alarm) bool {
	if l.full() {
		return false
	}
	if l.query.Admits(a) {
		if l.refused = !l.take(a); l.refused {
			return false
		}
		l.passed++
	}
	l.looked++
	return true
}

// checkPosition refuses the position of another list.
func (l *repeatingList) checkPosition() error {
	after := l.query.After
	ofAll := after.Application != ""
	if !after.IsZero() && (ofAll == (l.query.Application != "") || !ofAll && after.BusinessID == "") {
		return invalidCursor()
	}
	return nil
}
