package main

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// lockAlarm locks the row of an alarm, as a transaction of another service does. unlock ends the transaction.
func lockAlarm(t *testing.T, databaseURL, application, id string) (unlock func()) {
	t.Helper()
	return lockRows(t, databaseURL,
		fmt.Sprintf("SELECT id FROM alarm WHERE application = '%s' AND business_id = '%s' FOR UPDATE", application, id))
}

// lockRows locks the rows of a SELECT FOR UPDATE until unlock is called.
func lockRows(t *testing.T, databaseURL, query string) (unlock func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	tx, err := openDatabase(t, databaseURL).BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cancel)
	if _, err := tx.ExecContext(ctx, query); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// An answer over AMQP to an alarm whose row is locked delays no other answer. The others are settled before clockd
// gives that answer back to its queue for the first time.
func TestAnswerOnLockedRowDelaysNoOther(t *testing.T) {
	t.Parallel()
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL, b := e.open(t), dialBroker(t, amqpURL())
			p := startOn(t, databaseURL, b)
			got := b.receive("shop")
			const rounds, count = 6, 60
			for i := range count {
				p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("order-%d", i)),
					map[string]any{"ring_at": time.Now().UnixMilli(), "ack_timeout": "1h"})
			}
			eventually(t, "all alarms ring", func() bool { d, _ := got.byID(); return len(d) == count })
			ids := map[string]string{}
			for _, r := range got.all() {
				ids[r.businessID] = r.messageID
			}
			ch, err := b.conn.Channel()
			if err != nil {
				t.Fatal(err)
			}
			acknowledge := func(messageID string) {
				err := ch.PublishWithContext(t.Context(), "", b.exchange+".answers", true, false, amqp.Publishing{
					Type: "alarm.ack", CorrelationId: messageID, DeliveryMode: amqp.Persistent,
				})
				if err != nil {
					t.Fatal(err)
				}
			}
			requeued := func() float64 { return p.metric(`clockd_rabbit_answers_total{kind="ack",result="requeued"}`) }
			alone := false // in one round the others were settled first; a round may fail on a busy machine
			for round := 0; round < rounds && !alone; round++ {
				locked := fmt.Sprintf("order-%d", round*10)
				unlock := lockAlarm(t, databaseURL, "shop", locked)
				before, begun := requeued(), time.Now()
				acknowledge(ids[locked])
				eventually(t, "the slow answer is being written",
					func() bool { return p.metric("clockd_clock_queued_ops") > 0 })
				for i := 1; i < 10; i++ {
					acknowledge(ids[fmt.Sprintf("order-%d", round*10+i)])
				}
				eventually(t, "the others are settled", func() bool {
					return p.metric(`clockd_rabbit_answers_total{kind="ack",result="accepted"}`) == float64(round*10+9)
				})
				alone = requeued() == before
				t.Logf("round %d: 9 other answers were settled after %s; the answer on the locked row was requeued %v times",
					round, time.Since(begun), requeued()-before)
				unlock()
				eventually(t, "the slow answer is settled", func() bool {
					return p.must(http.StatusOK, http.MethodGet, alarmPath("shop", locked), nil).State == "rung"
				})
			}
			if !alone {
				t.Error("in each round the others waited for the answer on the locked row")
			}
			p.requireOnce("shop", copiesOf(got))
		})
	}
}

// The bodies of answers take no memory, however many answers the node receives at once.
func TestLargeBodiesOfAnswersTakeNoMemory(t *testing.T) {
	t.Parallel()
	b := dialBroker(t, amqpURL())
	ch, err := b.conn.Channel()
	if err != nil {
		t.Fatal(err)
	}
	queue := b.exchange + ".answers"
	if _, err := ch.QueueDeclare(queue, true, false, false, false, amqp.Table{"x-queue-type": "quorum"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	const count, size = 60, 4 << 20
	body := make([]byte, size)
	for i := range count {
		err := ch.PublishWithContext(t.Context(), "", queue, true, false, amqp.Publishing{
			Type: "alarm.ack", CorrelationId: fmt.Sprintf("%d.1.1", i+1), Body: body,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	p := startOn(t, mariadb(t), b)
	eventually(t, "all answers are settled", func() bool {
		return p.metric(`clockd_rabbit_answers_total{kind="ack",result="not_found"}`) == count
	})
	heap := p.metric("go_memstats_heap_sys_bytes")
	t.Logf("%d answers of %d MiB: the heap had %.0f MiB", count, size>>20, heap/(1<<20))
	if heap > count*size/4 {
		t.Errorf("the bodies were held: the heap had %.0f MiB", heap/(1<<20))
	}
}
