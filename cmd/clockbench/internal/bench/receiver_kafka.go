package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// topicPartitions is the number of partitions of the bench's topic.
const topicPartitions = 6

// topic receives rings as records of a topic of Kafka.
type topic struct {
	brokers string
	name    string
	client  *kgo.Client
	admin   *kadm.Client
}

var _ server = (*topic)(nil)

// newTopic makes a topic.
func newTopic(ctx context.Context, cfg *Config) (server, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(cfg.KafkaBrokers, ",")...))
	if err != nil {
		return nil, err
	}
	k := &topic{brokers: cfg.KafkaBrokers, name: randomName(), client: client, admin: kadm.NewClient(client)}
	if _, err := k.admin.CreateTopic(ctx, topicPartitions, 1, nil, k.name); err != nil {
		client.Close()
		return nil, fmt.Errorf("make topic %s: %w", k.name, err)
	}
	return k, nil
}

// Settings returns the topic.
func (k *topic) Settings() []string { return []string{"--target=kafka", "--kafka-topic=" + k.name} }

// Environment returns the brokers.
func (k *topic) Environment() []string { return []string{"CLOCKD_KAFKA_BROKERS=" + k.brokers} }

// Consume takes the records from now on into the tally.
func (k *topic) Consume(ctx context.Context, _ string, t *tally) (*consumer, error) {
	ends, err := k.admin.ListEndOffsets(ctx, k.name)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("consume topic %s: %w", k.name, err)
	}
	from := map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) { from[end.Partition] = kgo.NewOffset().At(end.Offset) })
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.brokers, ",")...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{k.name: from}), kgo.FetchMaxWait(fetchWait))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &consumer{stop: cancel}
	c.wait.Go(func() {
		defer client.Close()
		if err := takeRecords(ctx, client, t); ctx.Err() == nil {
			c.fail(err)
		}
	})
	return c, nil
}

// fetchWait is the longest time for which the broker waits for records. It responds as soon as there is one.
const fetchWait = 500 * time.Millisecond

// takeRecords takes records into the tally until an error, as at the end of ctx.
func takeRecords(ctx context.Context, client *kgo.Client, t *tally) error {
	for {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return fmt.Errorf("consume: %w", err)
		}
		at := time.Now()
		fetches.EachRecord(func(rec *kgo.Record) { t.take(recordRing(rec, at)) })
	}
}

// recordRing returns the ring of a record.
func recordRing(rec *kgo.Record, at time.Time) *ring {
	r := &ring{businessID: rec.Key, payload: rec.Value, at: at}
	for i := range rec.Headers {
		switch h := &rec.Headers[i]; h.Key {
		case "message-id":
			r.messageID = h.Value
		case "x-rung-at":
			r.rungAt, _ = strconv.ParseInt(string(h.Value), 10, 64) // 0 is no time
		}
	}
	return r
}

// ReplyAfter does nothing: the brokers reply.
func (k *topic) ReplyAfter(time.Duration) bool { return false }

// Close deletes the topic, and closes the connections.
func (k *topic) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	defer k.client.Close()
	deleted, err := k.admin.DeleteTopic(ctx, k.name)
	return errors.Join(err, deleted.Err)
}

// Sender returns a producer with clockd's records. Each worker produces a batch, and waits until all replicas have it.
func (k *topic) Sender(ctx context.Context, table bareTable) (*bareRinger, error) {
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(k.brokers, ",")...), kgo.DefaultProduceTopic(k.name))
	if err != nil {
		return nil, err
	}
	r := &bareRinger{table: table, rows: ringRows, close: client.Close}
	for range ringWorkers {
		r.deliver = append(r.deliver, func(rings []bareRing) error {
			records := make([]*kgo.Record, len(rings))
			for i := range rings {
				records[i] = recordOf(&rings[i])
			}
			return client.ProduceSync(ctx, records...).FirstErr()
		})
	}
	return r, nil
}

// recordOf returns the record of a ring, with the headers of clockd's records.
func recordOf(r *bareRing) *kgo.Record {
	rec := &kgo.Record{Key: []byte(r.businessID), Value: r.payload}
	add := func(name, value string) {
		rec.Headers = append(rec.Headers, kgo.RecordHeader{Key: name, Value: []byte(value)})
	}
	number := func(name string, n int64) { add(name, strconv.FormatInt(n, 10)) }
	add("message-id", r.messageID())
	add("content-type", contentType)
	add("x-application", application)
	add("x-business-id", r.businessID)
	number("x-generation", r.generation)
	number("x-ring-no", int64(r.ringNo))
	number("x-target-ring-at", r.ringAt)
	number("x-rung-at", r.rungAt)
	number("x-retry-times", int64(r.retryTimes))
	add("x-claim-id", r.claimID)
	return rec
}
