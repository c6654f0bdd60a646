package clock

import "context"

// RepeatingStore is the part of a store that RepeatingAlarms reads.
type RepeatingStore interface {
	RepeatingReader
	List(ctx context.Context, q ListQuery, take func(*Alarm) bool) (next ListPosition, err error)
}

// RepeatingAlarms lists the repeating alarms of one application or of all.
type RepeatingAlarms struct{ store RepeatingStore }

// NewRepeatingAlarms returns RepeatingAlarms.
func NewRepeatingAlarms(store RepeatingStore) *RepeatingAlarms { return &RepeatingAlarms{store: store} }

// listedApplications is the number of applications that one call of List looks into, at most.
const listedApplications = 100

// List passes repeating alarms to take, without attempts, by application and business id, until take returns false. It
// is Store.List, except that q may have no application: then the list has the alarms of all applications that covers
// admits. next is where the list goes on; zero: no alarm follows.
func (r *RepeatingAlarms) List(
	ctx context.Context, q ListQuery, covers func(application string) bool, take func(*Alarm) bool,
) (next ListPosition, err error) {
	q.Repeating = true
	if q.Application != "" {
		return r.store.List(ctx, q, take)
	}
	names, err := r.namesFrom(ctx, q.After.Application)
	if err != nil {
		return q.After, err
	}
	passed, after, limit := 0, q.After, q.Limit
	for _, name := range names[:min(len(names), listedApplications)] {
		if !covers(name) {
			continue
		}
		q.Application, q.After, q.Limit = name, ListPosition{}, limit-passed
		if name == after.Application {
			q.After.BusinessID = after.BusinessID
		}
		refused := false
		end, err := r.store.List(ctx, q, func(a *Alarm) bool {
			if refused = !take(a); !refused {
				passed++
			}
			return !refused
		})
		if err != nil {
			return ListPosition{}, err
		}
		if refused || !end.IsZero() {
			return ListPosition{Application: name, BusinessID: end.BusinessID}, nil
		}
	}
	if len(names) <= listedApplications {
		return ListPosition{}, nil
	}
	return ListPosition{Application: names[listedApplications]}, nil
}

// namesFrom returns the names of applications with repeating alarms from one on, and one more than listedApplications
// if there are more.
func (r *RepeatingAlarms) namesFrom(ctx context.Context, first string) (names []string, err error) {
	if first != "" {
		names = append(names, first)
	}
	following, err := r.store.RepeatingApplications(ctx, first, listedApplications+1-len(names))
	return append(names, following...), err
}
