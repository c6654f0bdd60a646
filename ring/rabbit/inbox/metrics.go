package inbox

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// Roles of the connections of inboxes.
const (
	roleAnswers     = "answers"
	roleCopies      = "answer copies"
	roleIntake      = "intake"
	roleIntakeWhole = "intake of large messages"
	roleDeadLetters = "dead letters"
)

// Results of answers: values of the label result of clockd_rabbit_answers_total. The label kind is the kind of the
// answer.
const (
	resultAccepted  = "accepted"
	resultNotFound  = "not_found"
	resultConflict  = "conflict"  // the ring is answered already, or is not the latest one
	resultInvalid   = "invalid"   // the delay is out of range
	resultRequeued  = "requeued"  // not applied now; it is submitted again
	resultMalformed = "malformed" // the message is no answer; its kind is kindUnknown

	kindUnknown = "unknown"
)

// Results of copies of answers: values of the label result of clockd_rabbit_answer_copies_total.
const (
	resultCopyConfirmed = "confirmed" // the broker has the copy, and the original is acked
	resultCopyFailed    = "failed"    // the copy is not published or not confirmed, and the original is submitted again
)

// Results of the intake: values of the label result of clockd_rabbit_intake_messages_total.
const (
	resultSet          = "set"           // the message is an alarm now
	resultDuplicate    = "duplicate"     // an alarm has the message already
	resultHeld         = "held"          // not stored now; it is submitted again
	resultRefused      = "refused"       // it cannot be an alarm; it goes to the dead letters
	resultOversized    = "oversized"     // larger than a payload; it is delivered again, to be refused as a whole
	resultDeadLetter   = "dead_lettered" // the exchange for dead letters has it, and it is acked
	resultNoDeadLetter = "not_dead_lettered"
)

// Metrics counts the messages of all inboxes of a session.
type Metrics struct {
	answers, answerCopies, intake *prometheus.CounterVec
}

// NewMetrics returns the metrics, registered with reg. With a nil reg they count without being registered.
func NewMetrics(reg prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		answers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_answers_total", Help: "Answers to rings received by AMQP, by kind and result.",
		}, []string{"kind", "result"}),
		answerCopies: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_answer_copies_total",
			Help: "Copies of answers put back to their queue because a requeue would count against a delivery limit, by result.",
		}, []string{"result"}),
		intake: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "clockd_rabbit_intake_messages_total",
			Help: "Delayed messages that the intake has consumed, by result. A held message counts each time.",
		}, []string{"result"}),
	}
	for _, result := range []string{resultCopyConfirmed, resultCopyFailed} {
		m.answerCopies.WithLabelValues(result)
	}
	if reg == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.answers, m.answerCopies, m.intake} {
		if err := reg.Register(c); err != nil {
			return nil, fmt.Errorf("rabbit: register metrics: %w", err)
		}
	}
	return m, nil
}
