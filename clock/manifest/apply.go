package manifest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// Store has the records of manifests.
type Store interface {
	// Manifests returns the record of the application, with Version 0 if it never had a manifest.
	Manifests(ctx context.Context, application string) (Stored, error)
	// NextManifests returns the records of the applications after the given one, by application and at most limit.
	NextManifests(ctx context.Context, after string, limit int) ([]Stored, error)
	// ChangeManifests writes the next version of an application's record. It returns clock.ErrPrecondition, and
	// changes nothing, if IfVersion does not hold.
	ChangeManifests(ctx context.Context, change Change) (Stored, error)
}

// Settings reads and changes the settings of applications, as *settings.Editor does.
type Settings interface {
	Get(ctx context.Context, application string) (settings.View, error)
	Plan(ctx context.Context, r settings.Request) (settings.Plan, error)
	Change(ctx context.Context, r settings.Request) (settings.View, error)
}

// Alarms reads and changes alarms, as *clock.Service does.
type Alarms interface {
	Get(ctx context.Context, key clock.Key) (*clock.Alarm, error)
	Plan(ctx context.Context, set *clock.Set, rules *clock.SetRules) (*clock.Alarm, clock.Decision, error)
	SubmitUnder(ctx context.Context, op clock.Op, rules *clock.SetRules) *clock.Pending
}

// Deps are the parts that an Applier uses.
type Deps struct {
	Store    Store
	Settings Settings
	Renew    func(ctx context.Context) error // this process rings by the latest settings afterwards
	Alarms   Alarms
	Now      func(ctx context.Context) (clock.Instant, error) // database's time
}

// Applier applies manifests. Each of its calls reads the database.
type Applier struct{ Deps }

// NewApplier returns an Applier.
func NewApplier(deps Deps) *Applier { return &Applier{deps} }

// Request asks that an application has what a manifest says.
type Request struct {
	Manifest

	DryRun   bool // change nothing
	Prune    bool // remove items of the label that the manifest does not name
	TakeOver bool // take items from other labels
	By       clock.Actor
	Quotas   bool // see settings.Request
}

// Action is the effect on an item.
type Action string

// The actions.
const (
	Create Action = "create" // it does not exist, or is over
	Update Action = "update"
	Keep   Action = "keep" // it is as the manifest has it
	Remove Action = "remove"
	Leave  Action = "leave" // the manifest names it no longer, and nothing was pruned
)

// Result is the effect of a Request; of a dry run, the effect that it would have.
type Result struct {
	Items []ItemResult // by kind and name
}

// Failed returns the number of items with an error.
func (r *Result) Failed() (failed int) {
	for i := range r.Items {
		if r.Items[i].Err != nil {
			failed++
		}
	}
	return failed
}

// ItemResult is the effect on an item.
type ItemResult struct {
	Item

	Action Action
	Err    error // an *clock.Error: why the action was not taken, or of a dry run why it would not be

	// What people see of a setting or destination, as JSON; "": none.
	Before, After string
	// The alarm; nil: none.
	AlarmBefore, AlarmAfter *clock.Alarm
}

const (
	// longestPause is the longest pause before a further plan.
	longestPause = 100 * time.Millisecond
	// changeTime bounds the time in which an Apply makes changes. Until busyTime after its begin others wait, should it
	// have died.
	changeTime = 20 * time.Second
	busyTime   = changeTime + 5*time.Second
	// maxRecord is the most bytes of a record. Manifests whose items are never pruned make it long.
	maxRecord = 1 << 20
	// maxShownPayload is the longest payload in bytes that an ItemResult has.
	maxShownPayload = 4 << 10
	// readsAtOnce is the number of alarms that are read at once for a plan.
	readsAtOnce = 8
)

// Apply makes the application as the manifest has it. A *clock.Error of kind clock.ErrInvalid names the field at fault,
// and says that nothing was changed. After any other error a part may have changed, and Apply may be called again. It
// waits until ctx ends while others change the same.
func (a *Applier) Apply(ctx context.Context, r *Request) (*Result, error) {
	if err := r.Validate(); err != nil {
		return nil, err
	}
	for {
		result, err := a.apply(ctx, r)
		if !errors.Is(err, clock.ErrPrecondition) {
			return result, err
		}
		select {
		case <-time.After(rand.N(longestPause)):
		case <-ctx.Done():
			return nil, &clock.Error{
				Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
				Detail: "others change the application's manifests or settings; apply again",
			}
		}
	}
}

// errBusy says that another Apply is changing the application.
var errBusy = &clock.Error{Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed,
	Detail: "another manifest of the application is being applied"}

// Record returns the record of the application, with Version 0 if it never had a manifest.
func (a *Applier) Record(ctx context.Context, application string) (*Record, error) {
	stored, err := a.Store.Manifests(ctx, application)
	if err != nil {
		return nil, err
	}
	return stored.parsed()
}

// Records returns the records of the next applications that covers admits, by application and at most limit. A record
// that cannot be read has only its error.
func (a *Applier) Records(
	ctx context.Context, after string, limit int, covers func(application string) bool,
) (records []*Record, err error) {
	const page = 100
	for len(records) < limit {
		all, err := a.Store.NextManifests(ctx, after, page)
		if err != nil {
			return nil, err
		}
		for i := range all {
			after = all[i].Application
			if !covers(after) || len(records) == limit {
				continue
			}
			r, err := all[i].parsed()
			if err != nil {
				r = &Record{Application: after, Version: all[i].Version, Unreadable: err}
			}
			records = append(records, r)
		}
		if len(all) < page {
			break
		}
	}
	return records, nil
}

// apply makes one plan and carries it out. clock.ErrPrecondition says that the plan has become old.
func (a *Applier) apply(ctx context.Context, r *Request) (*Result, error) {
	p, err := a.plan(ctx, r)
	if err == nil && p.changes() {
		err = a.carryOut(ctx, p)
	}
	if err != nil {
		return nil, err
	}
	return &Result{Items: p.items}, nil
}

// plan is what an Apply will do.
type plan struct {
	*Request

	now    clock.Instant
	record *Record
	owned  map[Item]bool // of the label
	named  map[Item]bool // by the manifest
	left   map[Item]bool // owned, existing, and named no longer
	view   settings.View // before
	rules  clock.SetRules
	sets   map[Item]*clock.Set
	items  []ItemResult
}

// changes reports whether anything is to be written.
func (p *plan) changes() bool {
	acts := func(r *ItemResult) bool { return r.Action.makes() || r.Action == Remove }
	return !p.DryRun && (p.any(acts) || !maps.Equal(p.owned, p.remaining()))
}

// plan judges the manifest, and changes nothing.
func (a *Applier) plan(ctx context.Context, r *Request) (*plan, error) {
	p := &plan{Request: r, named: r.Manifest.items(), left: map[Item]bool{}, sets: map[Item]*clock.Set{}}
	var err error
	if p.record, err = a.Record(ctx, r.Application); err != nil {
		return nil, err
	}
	if p.now, err = a.Now(ctx); err != nil {
		return nil, err
	}
	if p.record.Busy > p.now && !r.DryRun {
		return nil, errBusy
	}
	p.owned = p.record.itemsOf(r.Label)
	if err := p.checkOwners(); err != nil {
		return nil, err
	}
	if p.view, err = a.Settings.Get(ctx, r.Application); err != nil {
		return nil, err
	}
	if p.view.Unreadable != nil {
		return nil, &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeUnreadable,
			Detail: "the settings of the application cannot be read: " + p.view.Unreadable.Error()}
	}
	if len(p.record.with(p.Label, p.claimed(), p.now, p.By.Name).document()) > maxRecord {
		return nil, clock.Invalid(clock.CodeOutOfRange, "", "with the items that belong to manifests of the application "+
			"already, these are too many: prune first, with a manifest that names fewer")
	}
	if err := a.planSettings(ctx, p); err != nil {
		return nil, err
	}
	if err := a.planAlarms(ctx, p); err != nil {
		return nil, err
	}
	p.keepSettings()
	slices.SortFunc(p.items, func(a, b ItemResult) int { return compareItems(a.Item, b.Item) })
	return p, nil
}

// checkOwners refuses items of other labels.
func (p *plan) checkOwners() error {
	if p.TakeOver {
		return nil
	}
	for _, item := range slices.SortedFunc(maps.Keys(p.named), compareItems) {
		if owner := p.record.owner(item); owner != "" && owner != p.Label {
			return &clock.Error{
				Kind: clock.ErrConflict, Code: clock.CodeOwned, Field: item.field(),
				Detail: fmt.Sprintf(
					"%s belongs to the manifest %s. To take it over: take_over=true (clockd apply --take-over)", item, owner),
			}
		}
	}
	return nil
}

// claimed returns the items of the label while they are changed.
func (p *plan) claimed() map[Item]bool {
	items := maps.Clone(p.owned)
	maps.Copy(items, p.named)
	return items
}

// keepSettings gives settings and destinations that were to be removed an error, if an alarm has one: it may name one of
// them.
func (p *plan) keepSettings() {
	if !p.any(func(r *ItemResult) bool { return r.Kind == Alarm && r.Err != nil }) {
		return
	}
	for i := range p.items {
		if r := &p.items[i]; r.removesSetting() {
			r.Err = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeConditionFailed,
				Detail: "it stays, because an alarm was not changed and may name it; apply again"}
		}
	}
}

// removesSetting reports whether a setting or destination is to be removed.
func (r *ItemResult) removesSetting() bool { return r.Kind != Alarm && r.Action == Remove }

// field returns the field of the item in a manifest.
func (i Item) field() string {
	switch i.Kind {
	case Setting:
		return "settings." + i.Name
	case Destination:
		return destinationsMember + "." + i.Name
	default:
		return alarmField(i.Name)
	}
}

// settingsRequest asks for the settings with the manifest's, and without the removed ones if prune is set.
func (p *plan) settingsRequest(prune bool) settings.Request {
	var without map[Item]bool
	if prune {
		without = p.dropped()
	}
	return settings.Request{
		Application: p.Application, Document: p.document(p.view.Document, without), IfVersion: p.view.Version, By: p.By,
		Quotas: p.Quotas,
	}
}

// dropped returns the owned items that the manifest does not name.
func (p *plan) dropped() map[Item]bool {
	dropped := maps.Clone(p.owned)
	maps.DeleteFunc(dropped, func(item Item, _ bool) bool { return p.named[item] })
	return dropped
}

// planSettings judges the settings and destinations.
func (a *Applier) planSettings(ctx context.Context, p *plan) error {
	planned, err := a.Settings.Plan(ctx, p.settingsRequest(p.Prune))
	if err != nil {
		return inSettings(err)
	}
	p.rules = planned.Rules
	changes := map[settings.Member]settings.MemberChange{}
	for _, change := range planned.Members {
		changes[change.Member] = change
	}
	for item := range p.named {
		if item.Kind != Alarm {
			c := changes[item.member()]
			p.add(ItemResult{Item: item, Action: action(c.Before != "", c.Changes), Before: c.Before, After: c.After})
		}
	}
	for item := range p.dropped() {
		if c := changes[item.member()]; item.Kind != Alarm && c.Before != "" {
			p.addLeft(ItemResult{Item: item, Before: c.Before, After: c.After})
		}
	}
	if p.any((*ItemResult).removesSetting) { // then there are settings in between, with both
		_, err = a.Settings.Plan(ctx, p.settingsRequest(false))
	}
	return inSettings(err)
}

// inSettings names the field of an error as the manifest has it.
func inSettings(err error) error {
	e, is := errors.AsType[*clock.Error](err)
	if is && strings.HasPrefix(e.Field, destinationsMember) {
		return err
	}
	return clock.Within("settings", err)
}

// action returns the action for an item that the manifest names.
func action(exists, changes bool) Action {
	switch {
	case !changes:
		return Keep
	case exists:
		return Update
	default:
		return Create
	}
}

func (p *plan) add(r ItemResult) { p.items = append(p.items, r) }

// addLeft adds an item that exists, and that the manifest names no longer.
func (p *plan) addLeft(r ItemResult) {
	p.left[r.Item] = true
	if r.Action = Leave; p.Prune {
		r.Action = Remove
	}
	p.add(r)
}

// planAlarms judges the alarms.
func (a *Applier) planAlarms(ctx context.Context, p *plan) error {
	results := make([]ItemResult, len(p.Alarms))
	var g errgroup.Group
	g.SetLimit(readsAtOnce)
	for i := range p.Alarms {
		g.Go(func() (err error) {
			results[i], err = a.planSet(ctx, p, &p.Alarms[i])
			return err
		})
	}
	dropped := slices.Collect(maps.Keys(p.dropped()))
	stale := make([]*clock.Alarm, len(dropped)) // nil: the alarm is gone
	for i, item := range dropped {
		if item.Kind == Alarm {
			g.Go(func() (err error) {
				stale[i], err = a.removable(ctx, p.key(item))
				return err
			})
		}
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for i := range results {
		p.sets[results[i].Item] = &p.Alarms[i]
		p.add(results[i])
	}
	for i, alarm := range stale {
		if alarm != nil {
			r := ItemResult{Item: dropped[i], AlarmBefore: alarm}
			if p.Prune {
				r.Err = withoutAlarm(p.removal(alarm).Decide(alarm, p.now).Err)
			}
			p.addLeft(r)
		}
	}
	return nil
}

// planSet judges a set.
func (a *Applier) planSet(ctx context.Context, p *plan, set *clock.Set) (ItemResult, error) {
	r := ItemResult{Item: Item{Alarm, set.BusinessID}}
	before, d, err := a.Alarms.Plan(ctx, set, &p.rules)
	if err != nil {
		return r, clock.Within(alarmField(set.BusinessID), inManifest(err))
	}
	if errors.Is(d.Err, clock.ErrInvalid) {
		return r, clock.Within(alarmField(set.BusinessID), withoutAlarm(d.Err))
	}
	r.AlarmBefore, r.Err = before, withoutAlarm(d.Err)
	r.Action = action(before != nil && !before.State.Over(), d.Verdict != clock.Keep)
	if d.Writes() || d.Verdict == clock.Keep {
		r.AlarmAfter = &d.Alarm
		dropLong(r.AlarmAfter)
	}
	dropLong(r.AlarmBefore)
	return r, nil
}

// dropLong takes a long payload from an alarm. A plan has many alarms in memory, and people read at most so much.
func dropLong(a *clock.Alarm) {
	if a != nil && len(a.Payload) > maxShownPayload {
		a.Payload, a.PayloadKind = nil, clock.NoPayload
	}
}

// places are the places in a manifest that allow what an error of a code refuses.
var places = map[string]string{
	clock.CodeUnknownDestination: "destinations",
	clock.CodeTargetNotAllowed:   "settings.alarm_targets",
	clock.CodeReceiverNotAllowed: "alarm_fields of the target, under settings or destinations",
}

// inManifest returns an error whose hint names the place in a manifest, instead of a command.
func inManifest(err error) error {
	e, is := errors.AsType[*clock.Error](err)
	if !is || places[e.Code] == "" {
		return err
	}
	hinted := *e
	detail, _, _ := strings.Cut(e.Detail, ". To ")
	hinted.Detail = detail + ". In a manifest it belongs in " + places[e.Code]
	return &hinted
}

// withoutAlarm returns an error without the alarm that it has.
func withoutAlarm(err error) error {
	e, is := errors.AsType[*clock.Error](err)
	if !is || e.Alarm == nil {
		return err
	}
	brief := *e
	brief.Alarm = nil
	return &brief
}

// removable returns a repeating alarm that rings, or would ring after a kick, nil for any other.
func (a *Applier) removable(ctx context.Context, key clock.Key) (*clock.Alarm, error) {
	alarm, err := a.Alarms.Get(ctx, key)
	switch {
	case errors.Is(err, clock.ErrNotFound):
		return nil, nil //nolint:nilnil // there is none
	case err != nil:
		return nil, err
	case alarm.Repeat == nil && alarm.Unreadable == "", alarm.State == clock.Rung, alarm.State == clock.Cancelled:
		return nil, nil //nolint:nilnil // it is not of a manifest any more
	}
	dropLong(alarm)
	return alarm, nil
}

// key returns the key of an alarm.
func (p *plan) key(item Item) clock.Key {
	return clock.Key{Application: p.Application, BusinessID: item.Name}
}

// removal returns the op that removes an alarm.
func (p *plan) removal(alarm *clock.Alarm) clock.Op {
	condition := clock.Condition{Kind: clock.AtGeneration, Generation: alarm.Generation}
	if alarm.State.Over() {
		return clock.Op{Discard: &clock.Discard{Key: alarm.Key, If: condition}, Actor: &p.By}
	}
	return clock.Op{Cancel: &clock.Cancel{Key: alarm.Key, If: condition}, Actor: &p.By}
}
