package settings

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Plan is what a change of settings would make.
type Plan struct {
	Members []MemberChange // of the document before and after
	Rules   clock.SetRules // of sets after the change
}

// Member is a part of a document that changes on its own: a member, or a destination.
type Member struct {
	Name        string // of the member, or of the destination
	Destination bool
}

// Compare returns the order of members: destinations come last.
func (m Member) Compare(other Member) int {
	switch {
	case m.Destination == other.Destination:
		return strings.Compare(m.Name, other.Name)
	case m.Destination:
		return 1
	}
	return -1
}

// MemberChange is a Member before and after a change.
type MemberChange struct {
	Member

	Before  string // JSON as people see it; "": there was none
	After   string // JSON as people see it; "": there will be none
	Changes bool   // also if only a value changes that people do not see
}

// Plan judges a change, and makes none. An error is as of Change. Settings that cannot be read have a Plan without
// members before.
func (e *Editor) Plan(ctx context.Context, r Request) (Plan, error) {
	version, err := e.Stored.Settings(ctx, r.Application)
	if err != nil {
		return Plan{}, err
	}
	if r.IfVersion != AnyVersion && r.IfVersion != version.Version {
		return Plan{}, OtherVersion(r.Application, version.Version, r.IfVersion)
	}
	was, unreadable := e.parse(&version)
	document, err := e.revise(r, &was, unreadable)
	if err != nil {
		return Plan{}, err
	}
	next, err := e.Form.Parse(document)
	if err != nil {
		return Plan{}, err
	}
	return Plan{
		Members: e.Form.compare(&was, &next),
		Rules: clock.SetRules{Defaults: &next.Defaults, OwnReceiver: func(set *clock.Set) (clock.OwnPlace, error) {
			return e.Form.ownReceiver(&next, set)
		}},
	}, nil
}

// compare returns the members of two documents.
func (f *Form) compare(was, is *Settings) (changes []MemberChange) {
	before, after := membersOf(f.Encode(was)), membersOf(f.Encode(is))
	shownBefore, shownAfter := membersOf(f.Redacted(was)), membersOf(f.Redacted(is))
	all := maps.Clone(before)
	maps.Copy(all, after)
	delete(all, Member{Name: numberedName})
	for m := range all {
		changes = append(changes, MemberChange{m, shownBefore[m], shownAfter[m], before[m] != after[m]})
	}
	slices.SortFunc(changes, func(a, b MemberChange) int { return a.Compare(b.Member) })
	return changes
}

// membersOf returns the members of a document that a Form has encoded.
func membersOf(document string) map[Member]string {
	members := map[Member]string{}
	for name, raw := range decoded(document) {
		if name != destinationsName {
			members[Member{Name: name}] = string(raw)
			continue
		}
		for name, raw := range decoded(string(raw)) {
			members[Member{Name: name, Destination: true}] = string(raw)
		}
	}
	return members
}

// decoded returns the members of an object that a Form has encoded.
func decoded(object string) map[string]json.RawMessage {
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(object), &members); err != nil {
		panic(err)
	}
	return members
}
