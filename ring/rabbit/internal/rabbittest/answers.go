package rabbittest

import (
	"fmt"
	"maps"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// OpenWithAnswers opens the broker and declares a queue of answers, which the end of the test deletes.
func OpenWithAnswers(tb testing.TB, url string, args amqp.Table) *Broker {
	tb.Helper()
	b := Open(tb, url)
	b.Must(b.Ch.ExchangeDeclare(b.Exchange, "direct", true, false, false, false, nil)) // for the cleanup
	_, err := b.Ch.QueueDeclare(b.AnswerQueue(), true, false, false, false, args)
	b.Must(err)
	tb.Cleanup(func() { b.Remove(b.AnswerQueue()) })
	return b
}

// AnswerQueue returns the name of the queue of answers.
func (b *Broker) AnswerQueue() string { return b.Exchange + ".answers" }

// DeclareAnswers declares the queue of answers with clockd's arguments: a running node may declare it first.
func (b *Broker) DeclareAnswers() {
	b.TB.Helper()
	args := maps.Clone(Quorum)
	if !b.IsRabbitMQ3() {
		args["x-delivery-limit"] = int32(-1)
	}
	_, err := b.Ch.QueueDeclare(b.AnswerQueue(), true, false, false, false, args)
	b.Must(err)
}

// PublishAnswer publishes an answer like an application: to reply_to, through the default exchange.
func (b *Broker) PublishAnswer(d amqp.Publishing) {
	b.TB.Helper()
	b.Must(b.Ch.Publish("", b.AnswerQueue(), true, false, d))
}

// Ack publishes an ack of the alarm's first ring.
func (b *Broker) Ack(alarm int) {
	b.TB.Helper()
	b.PublishAnswer(amqp.Publishing{
		Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", alarm), DeliveryMode: amqp.Persistent,
	})
}

// QueuedAnswers returns the number of messages in the queue of answers that no consumer has. The broker puts back those
// of a consumer soon after its end.
func (b *Broker) QueuedAnswers() int {
	b.TB.Helper()
	b.Channel()
	q, err := b.Ch.QueueDeclarePassive(b.AnswerQueue(), true, false, false, false, nil)
	b.Must(err)
	return q.Messages
}

// AnswersStayAway reports whether the queue of answers stays empty for a second: the broker returns answers without an
// ack some time after their consumer has ended.
func (b *Broker) AnswersStayAway() bool {
	b.TB.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 50 {
		if b.QueuedAnswers() != 0 {
			return false
		}
		<-tick.C
	}
	return true
}
