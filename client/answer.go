package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// AnswerKind is a kind of answer to a ring.
type AnswerKind string

// The kinds of answers.
const (
	Acked    AnswerKind = "ack"     // the work is done
	Released AnswerKind = "release" // ring again later
	Buried   AnswerKind = "bury"    // give up; a person looks at the alarm
	Touched  AnswerKind = "touch"   // wait longer for the answer
)

// Answer is an answer to a ring of an alarm with AckTimeout.
type Answer struct {
	Kind   AnswerKind
	Delay  time.Duration // Released: time until the next ring. Touched: time for the answer from now; 0: the alarm's AckTimeout
	Reason string        // Released and Buried: text for reports, up to 500 bytes
	By     string        // name of the answering program or person; empty: the client's name
}

// Ack tells that the work of a ring is done.
func (c *Client) Ack(ctx context.Context, application, messageID string) (*Alarm, error) {
	return c.Answer(ctx, application, messageID, Answer{Kind: Acked})
}

// Answer answers the ring with this message id, and returns the alarm. If it is too late, the error has the code
// CodeStaleRing and the alarm. If an earlier try of this call was accepted and its response was lost, there is no
// error.
func (c *Client) Answer(ctx context.Context, application, messageID string, a Answer) (*Alarm, error) {
	if a.By == "" {
		a.By = c.by
	}
	body, failed := a.encode()
	if failed != nil {
		return nil, failed
	}
	alarm, err := c.alarm(ctx, &request{
		method: http.MethodPost, path: ringPath(application, messageID) + "/" + string(a.Kind), body: body,
		repeat: true,
	})
	var e *Error
	if errors.As(err, &e) && e.Code == CodeStaleRing && e.Unconfirmed && a.acceptedAs(e.Alarm, messageID) {
		return e.Alarm, nil
	}
	return alarm, err
}

// acceptedAs reports whether the alarm shows this answer to the ring.
func (a *Answer) acceptedAs(alarm *Alarm, messageID string) bool {
	return alarm != nil && alarm.Answer == a.Kind && (a.By == "" || a.By == alarm.AnsweredBy) &&
		strings.HasSuffix(messageID, "."+strconv.FormatInt(alarm.Generation, 10)+"."+strconv.Itoa(alarm.RingNo))
}

// encode returns the answer as JSON. Fields that the kind does not have are refused here, because the service would
// refuse them.
func (a *Answer) encode() ([]byte, *Error) {
	var f struct {
		Delay  *duration `json:"delay,omitempty"`
		Reason string    `json:"reason,omitempty"`
		By     string    `json:"by,omitempty"`
	}
	f.Delay, f.Reason, f.By = given(a.Delay), a.Reason, a.By
	switch {
	case a.Kind != Acked && a.Kind != Released && a.Kind != Buried && a.Kind != Touched:
		return nil, invalid("kind", "an answer is Acked, Released, Buried or Touched")
	case a.Delay != 0 && a.Kind != Released && a.Kind != Touched:
		return nil, invalid("delay", "only Released and Touched have a delay")
	case a.Reason != "" && a.Kind != Released && a.Kind != Buried:
		return nil, invalid("reason", "only Released and Buried have a reason")
	}
	b, err := json.Marshal(f)
	if err != nil {
		return nil, &Error{Code: CodeInvalidValue, Detail: err.Error(), Err: err}
	}
	return b, nil
}
