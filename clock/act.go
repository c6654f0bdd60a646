package clock

import "encoding/json"

// Actor is who does something that the audit records.
type Actor struct {
	Name      string // name of the token, or of the person who runs a command; "": anyone
	Token     string // id of the token; "": none
	From      string // address of the client; "": a command on the database
	RequestID string // of the first request if there are several; "": none
}

// Act is an entry of the audit: what an Actor did.
type Act struct {
	ID int64
	At Instant
	Actor
	Action      string // one of ActActions
	Application string // "": none
	Subject     string // business id, or id of a token or job; "": the application itself
	Before      string // JSON of what has changed; "": there was nothing
	After       string // JSON
}

// ActActions lists the actions of acts. Package access writes denied and login.
var ActActions = []string{
	"cancel", "kick", "discard", "pause", "resume", "trigger", "backfill", "end_backfill", "bulk_start", "bulk_stop",
	"settings", "manifest", "settings_seal", "settings_unseal", "token_create", "token_rotate", "token_revoke",
	"session_start", "session_end", "denied", "login",
}

// ActsQuery asks for acts, the newest first.
type ActsQuery struct {
	Application string // only acts on this application; "": all acts
	Subject     string // with Application: only acts on this business id, or other subject; "": on all
	BeforeID    int64  // only acts with a smaller id; 0: from the newest
	Limit       int    // 1 to MaxActsLimit
}

// Limits of an ActsQuery.
const (
	DefaultActsLimit = 100
	MaxActsLimit     = 1000
)

// actState is what an act says of an alarm.
type actState struct {
	State      string `json:"state"`
	Generation int64  `json:"generation"`
	Note       string `json:"note,omitempty"`
	// Backfill is the range that was asked for.
	Backfill *actRange `json:"backfill,omitempty"`
}

type actRange struct {
	From  string `json:"from"`
	Until string `json:"until,omitempty"` // empty: until the act
	Rings int64  `json:"rings"`
}

// ActOn returns the act of an op that changes an alarm.
func ActOn(op Op, before, after *Alarm, now Instant) Act {
	state := actState{State: after.State.String(), Generation: after.Generation, Note: op.Note}
	if b := op.Backfill; b != nil {
		state.Backfill = &actRange{From: b.From.String(), Rings: after.Progress.Backfill.Left}
		if b.Until != NoInstant {
			state.Backfill.Until = b.Until.String()
		}
	}
	return Act{
		At: now, Actor: *op.Actor, Action: op.Name(), Application: after.Application, Subject: after.BusinessID,
		Before: ActJSON(actState{State: before.State.String(), Generation: before.Generation}),
		After:  ActJSON(state),
	}
}

// ActJSON returns the JSON of what an act says. The value must be encodable.
func ActJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}
