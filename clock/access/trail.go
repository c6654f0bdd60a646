package access

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
)

// Actions of the acts that a Trail records.
const (
	ActionDenied = "denied" // requests were refused
	ActionLogin  = "login"  // an operator's or admin's token came from an address, the first time in a day
)

// Refusal is a request that was refused, because of its sender.
type Refusal struct {
	Sender      clock.Actor // without a name and a token if the request had the secret of none
	Code        string      // code of the response
	Request     string      // method, and path as in openapi.yaml; "": no path of the interface
	Application string      // "": none, or it is in a body that was not read
	Detail      string      // detail of the response
}

const (
	// trailEvery is the time between two writes.
	trailEvery = 2 * time.Second
	// trailBurst is the most acts that a node records at once, and trailPace the time after which it may record one
	// more. So no flood of refused requests fills the database: it is at most 29,000 acts a day.
	trailBurst = 20
	trailPace  = 3 * time.Second
	// trailWrite bounds a write.
	trailWrite = 5 * time.Second
	// loginAgain is the time after which a token's use from the same address is recorded again.
	loginAgain = 24 * time.Hour
	// maxLogins is the most pairs of a token and an address that are known as recorded.
	maxLogins = 1000
)

// TrailDeps are the parts of a Trail.
type TrailDeps struct {
	Write func(ctx context.Context, acts []clock.Act) error // adds acts to the audit
	Now   func() (clock.Instant, error)                     // database's time; an error while it is not known
	Log   *slog.Logger
}

// Trail records refusals and logins in the audit. Equal refusals between two writes are one act with their number. Its
// memory, and the acts that it writes, are bounded: acts beyond the bound are counted alone. Any goroutine may call it.
type Trail struct {
	deps TrailDeps

	mu      sync.Mutex
	budget  *rate.Limiter
	acts    []*recorded           // not yet written, at most trailBurst
	denied  map[refusal]*recorded // of acts
	omitted int64                 // refusals and logins beyond the bound
	logins  map[login]time.Time   // when they were recorded
}

// refusal is what equal refusals have in common.
type refusal struct {
	sender                     clock.Actor
	code, request, application string
	detail                     string // "": details do not tell refusals apart
}

// login is a token, or the person of a session, and the address that they came from.
type login struct{ owner, from string }

// recorded is an act that is not yet written.
type recorded struct {
	act    clock.Act // without After
	detail trailDetail
}

// trailDetail is what an act says in After.
type trailDetail struct {
	Code    string `json:"code,omitempty"`
	Detail  string `json:"detail,omitempty"`
	Request string `json:"request,omitempty"`
	Count   int64  `json:"count,omitempty"` // refused requests
	Role    string `json:"role,omitempty"`
	Omitted int64  `json:"omitted,omitempty"` // acts before this one, which were only counted
}

// NewTrail returns a Trail. Run writes its acts.
func NewTrail(deps TrailDeps) *Trail {
	return &Trail{
		deps: deps, budget: rate.NewLimiter(rate.Every(trailPace), trailBurst), denied: map[refusal]*recorded{},
		logins: map[login]time.Time{},
	}
}

// Refused records a refusal. It does not block.
func (t *Trail) Refused(r Refusal) {
	r.Detail = cut(r.Detail)
	key := refusal{r.Sender, r.Code, r.Request, r.Application, ""}
	if r.Code == clock.CodeForbidden {
		key.detail = r.Detail // it may name a person of a provider
	}
	key.sender.RequestID = ""
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.denied[key]; known != nil {
		known.detail.Count++
		return
	}
	added := t.add(
		clock.Act{Actor: r.Sender, Action: ActionDenied, Application: r.Application},
		trailDetail{Code: r.Code, Detail: r.Detail, Request: r.Request, Count: 1})
	if added != nil {
		t.denied[key] = added
	}
}

// maxDetail is the most bytes of a detail. A request or a provider may have made it long.
const maxDetail = 1000

// cut returns the beginning of a text that is too long, as valid UTF-8.
func cut(detail string) string {
	if len(detail) <= maxDetail {
		return detail
	}
	return strings.ToValidUTF8(detail[:maxDetail], "") + "..."
}

// Used records that a caller that operates has sent a request from an address, unless it did so before. It does not
// block.
func (t *Trail) Used(c *Caller, from, requestID string) {
	key, now := login{c.token.owner(), from}, time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	if at, known := t.logins[key]; known && now.Sub(at) < loginAgain {
		return
	}
	if len(t.logins) >= maxLogins {
		clear(t.logins)
	}
	t.logins[key] = now
	by := clock.Actor{Name: c.token.Name, Token: c.token.ID, From: from, RequestID: requestID}
	t.add(clock.Act{Actor: by, Action: ActionLogin}, trailDetail{Role: c.token.Role.String()})
}

// add adds an act, or counts it as omitted and returns nil.
func (t *Trail) add(act clock.Act, detail trailDetail) *recorded {
	now, err := t.deps.Now()
	if err != nil || len(t.acts) >= trailBurst || !t.budget.Allow() {
		t.omitted++
		return nil
	}
	act.At = now
	detail.Omitted, t.omitted = t.omitted, 0
	added := &recorded{act, detail}
	t.acts = append(t.acts, added)
	return added
}

// Run writes the acts until ctx ends, and once more then.
func (t *Trail) Run(ctx context.Context) error {
	ticker := time.NewTicker(trailEvery)
	defer ticker.Stop()
	failing := false
	for ended := false; !ended; {
		select {
		case <-ctx.Done():
			ended = true
		case <-ticker.C:
		}
		err := t.Flush(context.WithoutCancel(ctx))
		if err != nil && !failing {
			t.deps.Log.Warn("could not record refused requests and logins in the audit", "err", err)
		}
		failing = err != nil
	}
	return nil
}

// Flush writes the acts. After an error they wait for the next call.
func (t *Trail) Flush(ctx context.Context) error {
	taken := t.take()
	if len(taken) == 0 {
		return nil
	}
	acts := make([]clock.Act, len(taken))
	for i, r := range taken {
		acts[i] = r.act
		acts[i].After = clock.ActJSON(r.detail)
	}
	ctx, cancel := context.WithTimeout(ctx, trailWrite)
	defer cancel()
	err := t.deps.Write(ctx, acts)
	if err != nil {
		t.giveBack(taken)
	}
	return err
}

// take returns the acts. Further refusals make acts of their own.
func (t *Trail) take() []*recorded {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.acts
	t.acts = nil
	clear(t.denied)
	return taken
}

// giveBack keeps acts after a failed write, as far as there is room.
func (t *Trail) giveBack(taken []*recorded) {
	t.mu.Lock()
	defer t.mu.Unlock()
	kept := min(len(taken), trailBurst-len(t.acts))
	t.omitted += int64(len(taken) - kept)
	t.acts = append(taken[:kept:kept], t.acts...)
}
