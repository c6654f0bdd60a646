package settings_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

// A plan tells what a change would make, member by member and without secrets, and changes nothing.
func TestPlanTellsWhatAChangeWouldMake(t *testing.T) {
	t.Parallel()
	m := &memory{versions: []settings.Version{{
		Application: "shop", Version: 1, Document: `{"max_rings":3,"paused":true,` +
			`"destinations":{"mail":` + full + `},"numbered_targets":["webhook/mail"],` + full[1:],
	}}}
	plan := func(document string, ifVersion int64) (settings.Plan, error) {
		return m.editor().Plan(context.Background(), settings.Request{
			Application: "shop", Document: document, IfVersion: ifVersion, Quotas: true,
		})
	}
	shown, err := m.editor().Get(t.Context(), "shop")
	if err != nil {
		t.Fatal(err)
	}
	next := strings.Replace(shown.Document, `"max_rings":3,`, `"ack_timeout":"30s",`, 1)
	mail := strings.Index(next, `"destinations"`)
	next = next[:mail] + strings.Replace(next[mail:], `"a":"..."`, `"a":"silver"`, 1)
	p, err := plan(next, 1)
	if err != nil {
		t.Fatal(err)
	}
	var told []string
	for _, c := range p.Members {
		told = append(told,
			fmt.Sprintf("%s %t %t %t-%t", c.Name, c.Destination, c.Changes, c.Before != "", c.After != ""))
		if strings.Contains(c.Before+c.After, "gold") || strings.Contains(c.Before+c.After, "silver") {
			t.Errorf("a secret is shown: %+v", c)
		}
	}
	want := "ack_timeout false true false-true, max_rings false true true-false, paused false false true-true, " +
		"pigeon false false true-true, mail true true true-true"
	if got := strings.Join(told, ", "); got != want {
		t.Errorf("%s\nnot\n%s", got, want)
	}
	if d := p.Rules.Defaults; d.AckTimeout == nil || d.MaxRings != nil || d.Destinations["webhook/mail"] != 1 {
		t.Errorf("%+v", d)
	}
	_, err = p.Rules.OwnReceiver(&clock.Set{Content: clock.Content{Target: clock.TargetStream}})
	if !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("a receiver of its own: %v", err)
	}
	if len(m.versions) != 1 {
		t.Errorf("%d versions", len(m.versions))
	}
	if _, err := plan(next, 2); !errors.Is(err, clock.ErrPrecondition) {
		t.Errorf("another version: %v", err)
	}
	if _, err := plan(`{"colour":1}`, 1); !errors.Is(err, clock.ErrInvalid) {
		t.Errorf("a fault: %v", err)
	}
}
