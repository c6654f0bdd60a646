package manifest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// carryOut changes the application as planned. It gives the items their errors. Its own error says that a part may have
// changed. Until it ends, no other Apply changes the application.
func (a *Applier) carryOut(ctx context.Context, p *plan) error {
	changing, cancel := context.WithTimeout(ctx, changeTime)
	defer cancel()
	var err error
	if p.now, err = a.Now(ctx); err != nil { // after the begin of changeTime: the plan may have taken long
		return err
	}
	remaining := p.claimed()
	if err := a.putRecord(changing, p, remaining, p.now.Add(busyTime)); err != nil {
		return err
	}
	if err = a.change(changing, p); err == nil {
		remaining = p.remaining()
	}
	ending, end := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer end()
	return cmp.Or(err, a.putRecord(ending, p, remaining, clock.NoInstant))
}

// endTime bounds the last write of an Apply.
const endTime = 3 * time.Second

// change makes the changes.
func (a *Applier) change(ctx context.Context, p *plan) error {
	version, err := a.changeSettings(ctx, p)
	if err != nil {
		return err
	}
	if err := a.changeAlarms(ctx, p); err != nil {
		return err
	}
	return a.pruneSettings(ctx, p, version)
}

// remaining returns the items of the label at the end: all of the manifest, and former ones that still exist.
func (p *plan) remaining() map[Item]bool {
	items := maps.Clone(p.named)
	for i := range p.items {
		if r := &p.items[i]; p.left[r.Item] && (r.Action == Leave || r.Err != nil) {
			items[r.Item] = true
		}
	}
	return items
}

// putRecord writes which items the label has, and until when others wait; NoInstant: they need not.
func (a *Applier) putRecord(ctx context.Context, p *plan, items map[Item]bool, busy clock.Instant) error {
	next := p.record.with(p.Label, items, p.now, p.By.Name)
	next.Busy = busy
	change := Change{
		Application: p.Application, Document: next.document(), IfVersion: p.record.Version, At: p.now, By: p.By,
	}
	if busy != clock.NoInstant {
		counts := map[Action]int{}
		for i := range p.items {
			counts[p.items[i].Action]++
		}
		change.Act = clock.Act{At: p.now, Actor: p.By, Action: "manifest", Application: p.Application, Subject: p.Label,
			After: clock.ActJSON(counts)}
	}
	stored, err := a.Store.ChangeManifests(ctx, change)
	if err != nil {
		return err
	}
	next.Version, p.record = stored.Version, next
	return nil
}

// changeSettings makes the settings and destinations of the manifest. Others stay until pruneSettings. It returns the
// version of the settings.
func (a *Applier) changeSettings(ctx context.Context, p *plan) (version int64, err error) {
	if !p.any(func(r *ItemResult) bool { return r.Kind != Alarm && r.Action.makes() }) {
		return p.view.Version, nil
	}
	view, err := a.Settings.Change(ctx, p.settingsRequest(false))
	if err != nil {
		return 0, inSettings(err)
	}
	return view.Version, a.Renew(ctx)
}

// makes reports whether the action makes an item.
func (a Action) makes() bool { return a == Create || a == Update }

func (p *plan) any(is func(r *ItemResult) bool) bool {
	for i := range p.items {
		if is(&p.items[i]) {
			return true
		}
	}
	return false
}

// changeAlarms sets and cancels alarms. An alarm whose change is refused has an error. An error of the database ends
// all.
func (a *Applier) changeAlarms(ctx context.Context, p *plan) error {
	pending := make([]*clock.Pending, len(p.items))
	for i := range p.items {
		if op, is := p.op(&p.items[i]); is && ctx.Err() == nil {
			submit := func() *clock.Pending { return a.Alarms.SubmitUnder(ctx, op, &p.rules) }
			pending[i] = clock.SubmitPatiently(ctx, submit, clock.CodeOverloaded, clock.CodeQuotaSets)
		}
	}
	clock.AwaitAll(ctx, pending)
	if err := ctx.Err(); err != nil {
		return &clock.Error{Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second, Cause: err,
			Detail: "the time for all changes was too short, for example because of the quota sets_per_second; apply again"}
	}
	for i := range p.items {
		if pending[i] == nil {
			continue
		}
		r := &p.items[i]
		d, err := pending[i].Known()
		switch {
		case errors.Is(err, clock.ErrUnavailable), errors.Is(err, clock.ErrUnconfirmed):
			return err
		case r.Action == Remove && (err == nil || errors.Is(err, clock.ErrNotFound)):
			r.Err = nil
		case errors.Is(err, clock.ErrPrecondition):
			r.Err = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeConditionFailed,
				Detail: "the alarm has changed while the manifest was applied; apply again"}
		case err != nil:
			r.Err = withoutAlarm(err)
		default:
			r.AlarmAfter, r.Err = &d.Alarm, nil
			dropLong(r.AlarmAfter)
			if d.Verdict == clock.Keep {
				r.Action = Keep
			}
		}
	}
	return nil
}

// op returns the change of an alarm. is is false if there is none.
func (p *plan) op(r *ItemResult) (op clock.Op, is bool) {
	condition := clock.Condition{Kind: clock.Absent}
	if r.AlarmBefore != nil {
		condition = clock.Condition{Kind: clock.AtGeneration, Generation: r.AlarmBefore.Generation}
	}
	switch {
	case r.Kind != Alarm:
		return op, false
	case r.Action.makes():
		set := *p.sets[r.Item]
		set.If = condition
		return clock.Op{Set: &set}, true
	case r.Action == Remove:
		return p.removal(r.AlarmBefore), true
	}
	return op, false
}

// pruneSettings removes settings and destinations, unless an alarm is not as the manifest has it: it may name one of
// them.
func (a *Applier) pruneSettings(ctx context.Context, p *plan, version int64) error {
	for i := range p.items {
		if r := &p.items[i]; r.removesSetting() {
			r.Err = nil // of the plan
		}
	}
	if p.keepSettings(); !p.any(func(r *ItemResult) bool { return r.removesSetting() && r.Err == nil }) {
		return nil
	}
	request := p.settingsRequest(true)
	request.IfVersion = version
	_, err := a.Settings.Change(ctx, request)
	if err == nil {
		err = a.Renew(ctx)
	}
	switch {
	case errors.Is(err, clock.ErrPrecondition):
		err = &clock.Error{Kind: clock.ErrConflict, Code: clock.CodeConditionFailed,
			Detail: "the settings have changed while the manifest was applied; apply again"}
	case err != nil && !errors.Is(err, clock.ErrConflict):
		return err
	}
	for i := range p.items {
		if p.items[i].removesSetting() {
			p.items[i].Err = err
		}
	}
	return nil
}

var _ Settings = (*settings.Editor)(nil)
