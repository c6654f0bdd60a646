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

// Finding is one thing that the broker says of how safe rings are with it, once it has confirmed them.
type Finding struct {
	Name   string // the queue: `queue "shop"`
	Value  string // as it is: "quorum, durable"
	Safe   bool
	Detail string // a sentence for a person: what is lost when, or why it is safe
}

// Findings asks the management API which queues take rings and answers, and how safely: one finding a queue, by name. It
// returns nil where no ManagementURL is given. The error says that the broker could not be asked.
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
				Detail: "rings go on to another exchange; whether and how queues keep them there is not looked at",
			})
		}
	}
	if q, found := queues[answerQueue(s.cfg.Exchange)]; found {
		add(q.finding())
	}
	return slices.SortedFunc(maps.Values(findings), func(a, b Finding) int { return cmp.Compare(a.Name, b.Name) }), nil
}

// finding judges a queue by what can make a confirmed message vanish from it before anybody has seen it.
func (q *queue) finding() Finding {
	var loses []string
	lose := func(when bool, format string, args ...any) {
		if when {
			loses = append(loses, fmt.Sprintf(format, args...))
		}
	}
	lose(!q.Durable, "it is not durable: all in it is gone when the broker restarts")
	lose(q.AutoDelete, "it is deleted with all in it when its last consumer goes")
	lose(q.Exclusive, "it is exclusive: deleted with all in it when its connection ends")
	lose(q.Type == "classic" && !q.mirrored(), "it is a classic queue on one node: all in it is lost with that node's disk, and out of reach while the node is down")
	if v, given := q.option("expires"); given {
		lose(true, "it is deleted with all in it when nobody has consumed for %v ms", v)
	}
	if v, given := q.option("message-ttl"); given {
		lose(true, "it drops what nobody took within %v ms", v)
	}
	for _, name := range []string{"max-length", "max-length-bytes"} {
		if v, given := q.option(name); given && q.dropsHead() {
			lose(true, "it drops the oldest beyond %s %v (overflow is drop-head; reject-publish would have them rung again)", name, v)
		}
	}
	f := Finding{Name: fmt.Sprintf("queue %q", q.Name), Value: q.kind(), Safe: len(loses) == 0}
	if f.Safe {
		f.Detail = "what it has confirmed stays until it is consumed"
		return f
	}
	f.Detail = "what it has confirmed can be lost: " + strings.Join(loses, "; ")
	if _, given := q.option("dead-letter-exchange"); given {
		f.Detail += "; what it drops goes to its dead letter exchange"
	}
	return f
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

// mirrored reports whether a policy has a classic queue copied to other nodes (up to RabbitMQ 3).
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

// option returns what the queue was declared with, else what a policy says.
func (q *queue) option(name string) (any, bool) {
	if v, given := q.Arguments["x-"+name]; given {
		return v, true
	}
	v, given := q.Policy[name]
	return v, given
}

func (q *queue) dropsHead() bool {
	overflow, given := q.option("overflow")
	return !given || overflow == "drop-head"
}
