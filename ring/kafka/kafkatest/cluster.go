package kafkatest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// hangGuard bounds the waits for events that must come. No test judges their duration.
const hangGuard = time.Minute

// impatient lets a client of the test give up a broker that hangs soon.
var impatient = kgo.RequestTimeoutOverhead(2 * time.Second)

// Cluster is a Kafka cluster, with a client of the test's own.
type Cluster struct {
	Brokers []string       // addresses, as host:port
	Fake    *kfake.Cluster // nil: the brokers are real

	tb     testing.TB
	client *kgo.Client
	admin  *kadm.Client
}

// Real reports whether the environment names brokers of Apache Kafka.
func Real() bool { return os.Getenv("CLOCKD_TEST_KAFKA_BROKERS") != "" }

// Open returns the cluster that the environment names, else a fake one.
func Open(tb testing.TB) *Cluster {
	tb.Helper()
	if !Real() {
		return OpenFake(tb)
	}
	return Connect(tb, strings.Split(os.Getenv("CLOCKD_TEST_KAFKA_BROKERS"), ",")...)
}

// OpenFake returns a fake cluster of two brokers.
func OpenFake(tb testing.TB, opts ...kfake.Opt) *Cluster {
	tb.Helper()
	fake, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(2)}, opts...)...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(fake.Close)
	c := Connect(tb, fake.ListenAddrs()...)
	c.Fake = fake
	return c
}

// Connect returns the cluster of these brokers.
func Connect(tb testing.TB, brokers ...string) *Cluster {
	tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), impatient)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Close)
	return &Cluster{Brokers: brokers, tb: tb, client: client, admin: kadm.NewClient(client)}
}

var names atomic.Int64

// Unique returns a name for a topic that no other test has.
func Unique(prefix string) string {
	return fmt.Sprintf("%s.%d.%d.%d", prefix, os.Getpid(), time.Now().UnixMilli(), names.Add(1))
}

// Create makes a topic of three partitions with one replica each, and with these settings of Kafka. It is removed at the
// end of the test.
func (c *Cluster) Create(topic string, configs map[string]string) {
	c.tb.Helper()
	c.create(topic, 3, 1, configs)
	if c.Fake == nil {
		c.tb.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), hangGuard)
			defer cancel()
			if _, err := c.admin.DeleteTopics(ctx, topic); err != nil {
				c.tb.Errorf("remove topic %s: %v", topic, err)
			}
		})
	}
}

// Recreate removes a topic that Create has made, and makes it again.
func (c *Cluster) Recreate(topic string) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), hangGuard)
	defer cancel()
	if _, err := c.admin.DeleteTopics(ctx, topic); err != nil {
		c.tb.Fatal(err)
	}
	c.Eventually("topic "+topic+" is gone", func() bool { return len(c.partitions(topic)) == 0 })
	c.create(topic, 3, 1, nil)
}

// CreateReplicated makes a topic of three partitions with three replicas each, of which this number must be in sync.
func (c *Cluster) CreateReplicated(topic, inSync string) {
	c.tb.Helper()
	c.create(topic, 3, 3, map[string]string{"min.insync.replicas": inSync})
}

// CreateSingle makes a topic of one partition with one replica.
func (c *Cluster) CreateSingle(topic string) {
	c.tb.Helper()
	c.create(topic, 1, 1, nil)
}

// AwaitVoters waits until the leader of the controllers is elected by this number of them.
func (c *Cluster) AwaitVoters(number int) {
	c.tb.Helper()
	request := kmsg.NewPtrDescribeQuorumRequest()
	topic := kmsg.NewDescribeQuorumRequestTopic()
	topic.Topic = "__cluster_metadata"
	topic.Partitions = []kmsg.DescribeQuorumRequestTopicPartition{kmsg.NewDescribeQuorumRequestTopicPartition()}
	request.Topics = []kmsg.DescribeQuorumRequestTopic{topic}
	c.Eventually("all controllers vote", func() bool {
		quorum, err := request.RequestWith(c.tb.Context(), c.client)
		return err == nil && len(quorum.Topics) == 1 && len(quorum.Topics[0].Partitions) == 1 &&
			len(quorum.Topics[0].Partitions[0].CurrentVoters) == number
	})
}

// create makes a topic, and returns when each broker knows the leaders of its partitions.
func (c *Cluster) create(topic string, partitions int32, replicas int16, configs map[string]string) {
	c.tb.Helper()
	if c.Fake != nil {
		if err := c.Fake.CreateTopic(topic, partitions, configs); err != nil {
			c.tb.Fatal(err)
		}
		return
	}
	values := map[string]*string{}
	for name, value := range configs {
		values[name] = &value
	}
	ctx, cancel := context.WithTimeout(c.tb.Context(), hangGuard)
	defer cancel()
	if _, err := c.admin.CreateTopic(ctx, partitions, replicas, values, topic); err != nil {
		c.tb.Fatalf("create topic %s: %v", topic, err)
	}
	for _, broker := range c.Brokers {
		c.awaitTopic(ctx, broker, topic)
	}
}

// awaitTopic waits until the broker has a leader for each partition of the topic.
func (c *Cluster) awaitTopic(ctx context.Context, broker, topic string) {
	c.tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(broker), impatient)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer client.Close()
	c.Eventually(fmt.Sprintf("broker %s knows topic %s", broker, topic), func() bool {
		topics, err := kadm.NewClient(client).ListTopics(ctx, topic)
		if err != nil || topics[topic].Err != nil {
			return false
		}
		for _, p := range topics[topic].Partitions {
			if p.Err != nil || p.Leader < 0 {
				return false
			}
		}
		return len(topics[topic].Partitions) > 0
	})
}

// Leader returns the number of the broker that leads the first partition of a topic, -1 if none does.
func (c *Cluster) Leader(topic string) int32 {
	c.tb.Helper()
	partitions := c.partitions(topic)
	if len(partitions) == 0 {
		return -1
	}
	return partitions[0].Leader
}

// InSync returns how many replicas are in sync, of the partition that has the fewest.
func (c *Cluster) InSync(topic string) int {
	c.tb.Helper()
	fewest := 0
	for i, p := range c.partitions(topic) {
		if i == 0 || len(p.ISR) < fewest {
			fewest = len(p.ISR)
		}
	}
	return fewest
}

// partitions returns the partitions of a topic by their numbers.
func (c *Cluster) partitions(topic string) []kadm.PartitionDetail {
	c.tb.Helper()
	topics, err := c.admin.ListTopics(c.tb.Context(), topic)
	if err != nil {
		c.tb.Fatal(err)
	}
	return topics[topic].Partitions.Sorted()
}

// Deny takes the right to write to a topic from a user of Kafka.
func (c *Cluster) Deny(user, topic string) {
	c.tb.Helper()
	if _, err := c.admin.CreateACLs(c.tb.Context(), denial(user, topic)); err != nil {
		c.tb.Fatal(err)
	}
}

// Permit gives back the right that Deny has taken.
func (c *Cluster) Permit(user, topic string) {
	c.tb.Helper()
	if _, err := c.admin.DeleteACLs(c.tb.Context(), denial(user, topic).DenyHosts()); err != nil {
		c.tb.Fatal(err)
	}
}

func denial(user, topic string) *kadm.ACLBuilder {
	return kadm.NewACLs().Deny("User:" + user).Topics(topic).Operations(kadm.OpWrite).ResourcePatternType(kadm.ACLPatternLiteral)
}

// Records returns all records of a topic, none if there is no topic.
func (c *Cluster) Records(topic string) (all []*kgo.Record) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), hangGuard)
	defer cancel()
	ends, err := c.admin.ListEndOffsets(ctx, topic)
	if err != nil {
		c.tb.Fatal(err)
	}
	if err := ends.Error(); errors.Is(err, kerr.UnknownTopicOrPartition) {
		return nil
	} else if err != nil {
		c.tb.Fatal(err)
	}
	var want int64
	ends.Each(func(end kadm.ListedOffset) { want += end.Offset })
	if want == 0 {
		return nil
	}
	client := c.consumer(topic)
	defer client.Close()
	for int64(len(all)) < want {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			c.tb.Fatalf("%d of %d records: %v", len(all), want, err)
		}
		all = append(all, fetches.Records()...)
	}
	return all
}

// Consume gives each record of a topic to take, until the test ends.
func (c *Cluster) Consume(topic string, take func(*kgo.Record)) {
	c.tb.Helper()
	client := c.consumer(topic)
	ctx, cancel := context.WithCancel(context.Background())
	var consuming sync.WaitGroup
	consuming.Go(func() {
		for ctx.Err() == nil {
			client.PollFetches(ctx).EachRecord(take)
		}
	})
	c.tb.Cleanup(func() {
		cancel()
		consuming.Wait()
		client.Close()
	})
}

// consumer returns a client that reads a topic from its beginning.
func (c *Cluster) consumer(topic string) *kgo.Client {
	c.tb.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.Brokers...), kgo.ConsumeTopics(topic),
		kgo.FetchMaxWait(20*time.Millisecond), impatient, kgo.MetadataMaxAge(2*time.Second), kgo.MetadataMinAge(time.Second))
	if err != nil {
		c.tb.Fatal(err)
	}
	return client
}

// Header returns the value of a record's header, "" if it has none.
func Header(r *kgo.Record, name string) string {
	for _, h := range r.Headers {
		if h.Key == name {
			return string(h.Value)
		}
	}
	return ""
}

// Eventually polls until holds returns true.
func (c *Cluster) Eventually(what string, holds func() bool) {
	c.tb.Helper()
	for deadline := time.Now().Add(hangGuard); !holds(); <-time.After(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			c.tb.Fatalf("never: %s", what)
		}
	}
}
