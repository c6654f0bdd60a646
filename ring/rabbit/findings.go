package rabbit

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Finding says how safely one queue of the broker keeps confirmed messages.
type Finding struct {
	Name   string // the queue, or an exchange bound to the exchange of rings: `queue "shop"`
	Value  string // its type and durability: "quorum, durable"
	Safe   bool
	Detail string // a sentence for a person: which messages can be lost and when, or why the queue is safe
}

// Findings asks the management API which queues take rings and answers, and how safely they keep them. It returns one
// finding for each queue, sorted by name, and nil without a ManagementURL. The error says why the API gave no usable
// response.
func (s *Session) Findings(ctx context.Context) ([]Finding, error) {
	if s.management == nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.DialTimeout)
	defer cancel()
	bindings, err := s.management.bindings(ctx, s.cfg.Exchange)
	if err != nil {
		return nil, err
	}
	queues, err := s.management.queues(ctx)
	if err != nil {
		return nil, err
	}
	findings := map[string]Finding{}
	add := func(f Finding) { findings[f.Name] = f }
	for _, b := range bindings {
		if q, found := queues[b.Destination]; b.Type == "queue" && found {
			add(q.finding())
		} else if b.Type == "exchange" {
			add(Finding{
				Name: fmt.Sprintf("exchange %q", b.Destination), Value: "bound to exchange " + s.cfg.Exchange,
				Detail: "rings go on to another exchange; clockd does not check how queues keep them there",
			})
		}
	}
	if q, found := queues[answerQueue(s.cfg.Exchange)]; found {
		add(q.finding(q.answerLosses()...))
	}
	return slices.SortedFunc(maps.Values(findings), func(a, b Finding) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// finding lists the settings of a queue that can make it lose a confirmed message before a consumer gets the message.
// losses holds further reasons for a loss.
func (q *queue) finding(losses ...string) Finding {
	lose := func(when bool, format string, args ...any) {
		if when {
			losses = append(losses, fmt.Sprintf(format, args...))
		}
	}
	lose(!q.Durable, "it is not durable: a restart of the broker deletes it with all messages")
	lose(q.AutoDelete, "it is deleted with all messages when its last consumer ends")
	lose(q.Exclusive, "it is exclusive: it is deleted with all messages when its connection ends")
	lose(q.Type == "classic" && !q.mirrored(),
		"it is a classic queue on one node: all messages are lost with that node's disk, and unreachable while the node is down")
	if v, given := q.option("expires"); given {
		lose(true, "it is deleted with all messages after %v ms without a consumer", v)
	}
	if v, given := q.option("message-ttl"); given {
		lose(true, "it drops messages that no consumer took within %v ms", v)
	}
	for _, name := range []string{"max-length", "max-length-bytes"} {
		if v, given := q.option(name); given && q.dropsOldest() {
			lose(true,
				"it drops the oldest beyond %s %v (overflow is drop-head; with reject-publish clockd would ring again)",
				name, v)
		}
	}
	f := Finding{Name: fmt.Sprintf("queue %q", q.Name), Value: q.kind(), Safe: len(losses) == 0}
	if f.Safe {
		f.Detail = "confirmed messages stay until they are consumed"
		return f
	}
	f.Detail = "confirmed messages can be lost: " + strings.Join(losses, "; ")
	if _, given := q.option("dead-letter-exchange"); given {
		f.Detail += "; dropped messages go to its dead letter exchange"
	}
	return f
}

// answerLosses lists the settings of the queue of answers that can make it lose an answer after its delivery. The
// broker applies the delivery limit of a policy also to a queue whose argument lifts the limit. The default limit of
// RabbitMQ 4 is no setting of the queue.
func (q *queue) answerLosses() (losses []string) {
	for _, v := range []any{q.Arguments["x-delivery-limit"], q.Policy["delivery-limit"]} {
		number, _ := v.(json.Number)
		if limit, err := number.Int64(); err == nil && limit >= 0 {
			losses = append(losses,
				fmt.Sprintf("it drops an answer that it has delivered more than %d times (delivery-limit), and it delivers an answer "+
					"again after each end of a connection and while the database is away", limit))
		}
	}
	return losses
}

func (q *queue) kind() string {
	kind := q.Type
	if q.Type == "classic" && q.mirrored() {
		kind += ", mirrored"
	}
	if q.Durable {
		return kind + ", durable"
	}
	return kind + ", not durable"
}

// mirrored reports whether a policy copies a classic queue to other nodes (up to RabbitMQ 3).
func (q *queue) mirrored() bool {
	switch q.Policy["ha-mode"] {
	case nil:
		return false
	case "exactly":
		copies, _ := q.Policy["ha-params"].(json.Number)
		return copies != "1"
	default:
		return true
	}
}

// option returns the value of an option: from the queue's arguments, else from its policy.
func (q *queue) option(name string) (any, bool) {
	if v, given := q.Arguments["x-"+name]; given {
		return v, true
	}
	v, given := q.Policy[name]
	return v, given
}

func (q *queue) dropsOldest() bool {
	overflow, given := q.option("overflow")
	return !given || overflow == "drop-head"
}
