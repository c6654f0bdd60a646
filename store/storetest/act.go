package storetest

import (
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/settings"
)

// acts returns the acts that the query asks for, without their ids. It demands that ids fall.
func (f *fixture) acts(q clock.ActsQuery) []clock.Act {
	f.t.Helper()
	all, err := f.Acts(f.t.Context(), q)
	ok(f.t, err, "acts")
	if !slices.IsSortedFunc(all, func(a, b clock.Act) int { return int(b.ID - a.ID) }) {
		f.t.Errorf("the acts are not in order: %v", all)
	}
	for i := range all {
		all[i].ID = 0
	}
	return all
}

// testActs demands one act for each change by an actor, in the change's transaction, and none for other ops and for
// refused ones.
func testActs(t *testing.T, f *fixture) {
	ops := &clock.Actor{Name: "näme’", Token: "0123456789ab", From: "2001:db8::1", RequestID: strings.Repeat("r", 128)}
	by := func(op clock.Op) clock.Op { op.Actor = ops; return op }
	pause := func(id string) clock.Op { return clock.Op{Pause: &clock.Pause{Key: key(id)}} }
	resume := func(id string) clock.Op { return clock.Op{Resume: &clock.Resume{Key: key(id)}} }
	f.write(t0, set("a", t0+5), set("b’", t0+5), set("c", t0+5))
	f.write(t0+1, by(pause("a")), pause("c"), by(pause("unknown")))
	f.write(t0+2, by(pause("a")), by(pause("b’"))) // the first changes nothing
	f.write(t0+3, by(resume("a")), by(resume("c")))
	act := func(at clock.Instant, action, id, before, after string) clock.Act {
		return clock.Act{
			At: at, Actor: *ops, Action: action, Application: app, Subject: id,
			Before: `{"state":"` + before + `","generation":1}`, After: `{"state":"` + after + `","generation":1}`,
		}
	}
	alarms := []clock.Act{
		act(t0+3, "resume", "c", "paused", "scheduled"), act(t0+3, "resume", "a", "paused", "scheduled"),
		act(t0+2, "pause", "b’", "scheduled", "paused"), act(t0+1, "pause", "a", "scheduled", "paused"),
	}
	same(t, "acts on alarms", f.acts(clock.ActsQuery{Limit: 10}), alarms)

	f.changeSettings(change("bank", `{"webhook":"secret"}`, t0+4, 0))
	settings := clock.Act{
		At: t0 + 4, Actor: clock.Actor{Name: "näme’ of bank", Token: ops.Token, From: ops.From},
		Action: "settings", Application: "bank",
		Before: `{"version":0}`, After: `{"version":1}`,
	}
	denied := clock.Act{At: t0 + 4, Actor: clock.Actor{From: "192.0.2.9", RequestID: "d"}, Action: "denied", Application: "till",
		After: `{"code":"unauthenticated","detail":"’","count":3}`}
	login := clock.Act{At: t0 + 4, Actor: *ops, Action: "login", After: `{"role":"operator"}`}
	ok(t, f.AddActs(t.Context(), []clock.Act{denied, login}), "add acts")
	ok(t, f.AddActs(t.Context(), nil), "add no act")
	same(t, "acts of no change", f.acts(clock.ActsQuery{Limit: 2}), []clock.Act{login, denied})
	same(t, "acts on the denied application", f.acts(clock.ActsQuery{Application: "till", Limit: 9}), []clock.Act{denied})

	made := token(t, "ci")
	f.addToken(made)
	_, err := f.ChangeToken(t.Context(), made.ID,
		tokenChange(func(t *access.Token) error { t.Revoke(t0 + 9); return nil }))
	ok(t, err, "revoke")
	added, err := f.AddToken(t.Context(), made)
	ok(t, err, "add again")
	same(t, "added again", added, false)
	all := f.acts(clock.ActsQuery{Limit: 10})
	same(t, "acts", len(all), 9)
	same(t, "act on settings", all[4], settings)
	same(t, "acts on alarms after others", all[5:], alarms)
	create, rotate := all[1], all[0]
	if create.Action != "token_create" || create.Subject != made.ID || create.Name != made.CreatedBy ||
		create.Before != "" || !strings.Contains(create.After, `"role":"operator"`) {
		t.Errorf("act of a new token: %+v", create)
	}
	if rotate.Action != "token_rotate" || rotate.From != "192.0.2.1" ||
		!strings.Contains(rotate.Before, `"revoked_at":null`) || strings.Contains(rotate.After, `"revoked_at":null`) {
		t.Errorf("act on a token: %+v", rotate)
	}
	for _, a := range all {
		if text := a.Before + a.After; strings.Contains(text, "secret\":\"") ||
			strings.Contains(text, made.Secret.Encode()) {
			t.Errorf("an act shows a secret: %+v", a)
		}
	}
	same(t, "acts on an application", f.acts(clock.ActsQuery{Application: "bank", Limit: 10}), []clock.Act{settings})
	same(t, "newest act on an application", f.acts(clock.ActsQuery{Application: app, Limit: 1}), alarms[:1])
	const size = 6
	page, err := f.Acts(t.Context(), clock.ActsQuery{Limit: size})
	ok(t, err, "a page")
	same(t, "next page", f.acts(clock.ActsQuery{BeforeID: page[size-1].ID, Limit: size}), alarms[1:])
	same(t, "next page of an application",
		f.acts(clock.ActsQuery{Application: app, BeforeID: page[size-1].ID, Limit: 1}), alarms[1:2])
	onA := clock.ActsQuery{Application: app, Subject: "a", Limit: 10}
	same(t, "acts on an alarm", f.acts(onA), []clock.Act{alarms[1], alarms[3]})
	onA.Limit = 1
	same(t, "newest act on an alarm", f.acts(onA), alarms[1:2])
	same(t, "acts on an alarm of another application",
		len(f.acts(clock.ActsQuery{Application: "bank", Subject: "a", Limit: 10})), 0)
	same(t, "acts on an alarm whose id has a blank more",
		len(f.acts(clock.ActsQuery{Application: app, Subject: "a ", Limit: 10})), 0)
	same(t, "acts on an alarm whose id differs in its last character",
		f.acts(clock.ActsQuery{Application: app, Subject: "b’", Limit: 10}), alarms[2:3])
	same(t, "report", f.report(`SELECT done_at, actor, token, origin, action, application, subject, request_id FROM audit_report WHERE action = 'resume' ORDER BY id`), [][]string{
		{(t0 + 3).Time().Format(reportLayout), ops.Name, ops.Token, ops.From, "resume", app, "a", ops.RequestID},
		{(t0 + 3).Time().Format(reportLayout), ops.Name, ops.Token, ops.From, "resume", app, "c", ops.RequestID},
	})
}

// testCancelActs demands one act for the cancel of a person, and none for that of an application, also in one group.
func testCancelActs(t *testing.T, f *fixture) {
	by := func(op clock.Op) clock.Op {
		op.Actor, op.Note = &clock.Actor{Name: "ann"}, "closed"
		return op
	}
	f.set(t0, set("a", t0+5), set("b", t0+5), set("c", t0+5))
	for i, d := range f.write(t0+1, cancel("a"), by(cancel("b")), cancel("c"), by(cancel("unknown"))) {
		same(t, "verdict", d.Verdict, []clock.Verdict{clock.Disarm, clock.Disarm, clock.Disarm, clock.Refuse}[i])
	}
	f.write(t0+2, by(cancel("a")), by(cancel("b"))) // both change nothing
	same(t, "acts", f.acts(clock.ActsQuery{Limit: 10}), []clock.Act{{
		At: t0 + 1, Actor: clock.Actor{Name: "ann"}, Action: "cancel", Application: app, Subject: "b",
		Before: `{"state":"scheduled","generation":1}`, After: `{"state":"cancelled","generation":1,"note":"closed"}`,
	}})
}

// testPurgedActs deletes the oldest acts alone.
func testPurgedActs(t *testing.T, f *fixture) {
	for i := range clock.Instant(5) {
		f.changeSettings(change("shop", `{}`, t0+i, settings.AnyVersion))
	}
	for _, c := range []struct {
		before        clock.Instant
		limit, purged int
		left          int
	}{{t0, 10, 0, 5}, {t0 + 4, 3, 3, 2}, {t0 + 4, 3, 1, 1}, {t0 + 4, 3, 0, 1}} {
		n, err := f.PurgeActs(t.Context(), c.before, c.limit)
		ok(t, err, "purge acts")
		same(t, "purged acts", n, c.purged)
		same(t, "acts left", len(f.acts(clock.ActsQuery{Limit: 10})), c.left)
	}
	same(t, "newest act", f.acts(clock.ActsQuery{Limit: 10})[0].At, t0+4)
}
