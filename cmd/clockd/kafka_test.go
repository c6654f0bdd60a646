package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/kafka/kafkatest"
)

// brokersEnv is the setting of a node for the brokers of a cluster.
func brokersEnv(c *kafkatest.Cluster) string {
	return "CLOCKD_KAFKA_BROKERS=" + strings.Join(c.Brokers, ",")
}

// consume records the rings of a topic until the test ends.
func consume(cluster *kafkatest.Cluster, topic string) *receiver {
	got := &receiver{}
	cluster.Consume(topic, func(r *kgo.Record) { got.add(ringOfRecord(r)) })
	return got
}

// ringOfRecord returns the ring. Its arrival is the time at which the producer made the record, which is before any
// consumer can have it.
func ringOfRecord(r *kgo.Record) receivedRing {
	ms, _ := strconv.ParseInt(kafkatest.Header(r, "x-target-ring-at"), 10, 64)
	return receivedRing{
		messageID: kafkatest.Header(r, "message-id"), businessID: kafkatest.Header(r, "x-business-id"),
		claimID: kafkatest.Header(r, "x-claim-id"), body: string(r.Value),
		arrived: r.Timestamp, target: time.UnixMilli(ms),
	}
}

// Brokers change, and refuse some requests. A node is killed in the middle. Every alarm arrives, none early, and all
// copies of a ring have one message id and one key.
func TestKafkaRingsAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			cluster := kafkatest.OpenFake(t)
			cluster.Create("rings", nil)
			got := consume(cluster, "rings")
			requests := 0
			cluster.Fake.ControlKey(kmsg.Produce.Int16(), func(r kmsg.Request) (kmsg.Response, error, bool) {
				cluster.Fake.KeepControl()
				if requests++; requests%7 != 0 {
					return nil, nil, false
				}
				return refuseProduce(r.(*kmsg.ProduceRequest)), nil, true
			})
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, brokersEnv(cluster)}
			survivor := start(t, env...)
			victim := survivor
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			application(t, databaseURL, "set", "shop", "--target=kafka", "--kafka-topic=rings")
			for _, p := range []*process{survivor, victim} {
				eventually(t, "the node applies the target",
					func() bool { return p.settings("shop").AppliedTarget == "kafka" })
			}
			const alarms = 400
			for i := range alarms {
				victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("order/%d", i)),
					map[string]any{"delay": fmt.Sprintf("%dms", 500+i*37%2500), "payload": i,
						"retry": map[string]any{"initial": "100ms", "cap": "1s"}})
			}
			eventually(t, "rings arrive", func() bool { return got.number() > alarms/10 })
			victim.kill()
			cluster.Fake.ShufflePartitionLeaders()
			if victim == survivor {
				survivor = start(t, env...)
			}
			eventually(t, "all alarms have rung", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
			requireRungOnce(t, got, alarms)
		})
	}
}

// requireRungOnce waits until this number of alarms has arrived, and fails if one arrived under two message ids, or early.
func requireRungOnce(t *testing.T, got *receiver, alarms int) {
	t.Helper()
	awaitRung(t, got, alarms)
	distinct, _ := got.byID()
	for id, n := range distinct {
		if n != 1 {
			t.Errorf("alarm %s arrived under %d message ids", id, n)
		}
	}
	for _, r := range got.all() {
		if r.arrived.Before(r.target) {
			t.Errorf("%s rang %s early", r.businessID, r.target.Sub(r.arrived))
		}
	}
	t.Logf("%d rings, %d of them copies", got.number(), got.number()-alarms)
}

// refuseProduce replies that too few replicas are in sync, so that nothing was written.
func refuseProduce(r *kmsg.ProduceRequest) kmsg.Response {
	res := r.ResponseKind().(*kmsg.ProduceResponse)
	for _, t := range r.Topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			part := kmsg.NewProduceResponseTopicPartition()
			part.Partition, part.ErrorCode = p.Partition, kerr.NotEnoughReplicas.Code
			topic.Partitions = append(topic.Partitions, part)
		}
		res.Topics = append(res.Topics, topic)
	}
	return res
}

// A node without brokers says that it cannot ring applications of Kafka. A missing topic holds up only its own
// application.
func TestKafkaHoldsUpOnlyItsOwnApplications(t *testing.T) {
	t.Parallel()
	databaseURL := sqliteFile(t)
	cluster := kafkatest.Open(t)
	topic, later := kafkatest.Unique("rings"), kafkatest.Unique("nowhere")
	cluster.Create(topic, nil)
	without := start(t, "CLOCKD_DATABASE_URL="+databaseURL)
	application(t, databaseURL, "set", "shop", "--target=kafka", "--kafka-topic="+topic,
		"--kafka=key=application,headers=lean")
	eventually(t, "readiness names the application", func() bool {
		details := without.details("settings", statusWarning)
		return len(details) == 1 && strings.Contains(details[0], "shop") &&
			strings.Contains(details[0], "no target kafka")
	})
	eventually(t, "the node lacks Kafka",
		func() bool { return without.metric(`clockd_preload_ability_lost_seconds{ability="kafka"}`) > 0 })
	without.must(http.StatusCreated, http.MethodPut, alarmPath("shop", "1"), map[string]any{"delay": 0})
	if err := without.terminate(); err != nil {
		t.Fatal(err)
	}
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, brokersEnv(cluster))
	got := consume(cluster, topic)
	awaitRung(t, got, 1)
	application(t, databaseURL, "set", "lost", "--target=kafka", "--kafka-topic="+later)
	eventually(t, "the node applies the target", func() bool { return p.settings("lost").AppliedTarget == "kafka" })
	for i := range 20 {
		p.must(http.StatusCreated, http.MethodPut, alarmPath("lost", fmt.Sprint(i)), map[string]any{"delay": 0})
		p.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprint("n", i)), map[string]any{"delay": 0})
	}
	awaitRung(t, got, 21)
	eventually(t, "the alarm says why it does not ring", func() bool {
		return strings.Contains(p.must(http.StatusOK, http.MethodGet, alarmPath("lost", "0"), nil).LastError,
			"UNKNOWN_TOPIC_OR_PARTITION")
	})
	cluster.Create(later, nil)
	eventually(t, "the alarms ring once the topic exists", func() bool { return p.inState("lost", clock.Rung) == 20 })
}
