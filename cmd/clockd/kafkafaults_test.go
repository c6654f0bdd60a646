//go:build kafka

package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/kafka/kafkatest"
)

// kafkaHosts are the services of deploy/services that are the hosts of one Kafka cluster, by the number of the broker.
var kafkaHosts = map[int32]string{1: "kafka", 2: "kafka2", 3: "kafka3"}

// kafkaServers is a Kafka cluster of three hosts for one test, which may stop and kill them.
type kafkaServers struct {
	*services
	cluster *kafkatest.Cluster
}

// startKafkaServers returns when each host is a broker and votes for the controller.
func startKafkaServers(t *testing.T) *kafkaServers {
	t.Helper()
	k := (&kafkaServers{services: startPrivateServers(t, "kafka", "kafka2", "kafka3")}).in(t)
	k.cluster.AwaitVoters(len(kafkaHosts))
	return k
}

// in returns the same servers for a subtest.
func (k *kafkaServers) in(t *testing.T) *kafkaServers {
	t.Helper()
	s := k.services.in(t)
	return &kafkaServers{services: s, cluster: kafkatest.Connect(t, strings.Split(s.env["CLOCKD_TEST_KAFKA_BROKERS"], ",")...)}
}

// fill lets each write of a host to a file fail from now on, as on a full disk. It ends with the process.
func (k *kafkaServers) fill(host string) {
	k.t.Helper()
	status := k.do("status", host)
	found := regexp.MustCompile(`(?m)^` + host + ` +running +pid ([0-9]+)`).FindStringSubmatch(status)
	if found == nil {
		k.t.Fatalf("%s does not run: %s", host, status)
	}
	pid, err := strconv.Atoi(found[1])
	if err != nil {
		k.t.Fatal(err)
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: 1, Max: unix.RLIM_INFINITY}, nil); err != nil {
		k.t.Fatal(err)
	}
}

// application gives an application a topic, and returns what arrives there.
func (k *kafkaServers) application(p *process, databaseURL, name string, create func(topic string)) (topic string, got *receiver) {
	k.t.Helper()
	topic = kafkatest.Unique(name)
	create(topic)
	application(k.t, databaseURL, "set", name, "--target=kafka", "--kafka-topic="+topic)
	eventually(k.t, "the node applies the target", func() bool { return p.settings(name).AppliedTarget == "kafka" })
	return topic, consume(k.cluster, topic)
}

// The faults happen to one cluster, one after the other: a host takes long to start.
func TestFaultsOfKafka(t *testing.T) {
	k := startKafkaServers(t)
	_ = t.Run("broker dies", func(t *testing.T) { kafkaBrokerDies(t, k.in(t)) }) &&
		t.Run("broker stands still", func(t *testing.T) { kafkaBrokerStandsStill(t, k.in(t)) }) &&
		t.Run("disk is full", func(t *testing.T) { kafkaDiskIsFull(t, k.in(t)) })
}

// kafkaBrokerDies: a broker and a node are killed in the middle of a burst. Until the broker is back, the alarms of a
// topic with enough replicas ring; a topic without a leader keeps its alarms, without a counted try; a topic with too few
// replicas in sync takes none. Afterwards all have rung.
func kafkaBrokerDies(t *testing.T, k *kafkaServers) {
	databaseURL := postgres(t)
	env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, brokersEnv(k.cluster)}
	p, victim := start(t, env...), start(t, env...)
	_, shop := k.application(p, databaseURL, "shop", func(topic string) { k.cluster.CreateReplicated(topic, "2") })
	_, strict := k.application(p, databaseURL, "strict", func(topic string) { k.cluster.CreateReplicated(topic, "3") })
	lone, alone := k.application(p, databaseURL, "lone", func(topic string) { k.cluster.Create(topic, nil) })
	dead := kafkaHosts[k.cluster.Leader(lone)]
	const alarms, few = 2000, 30
	due := time.Now().Add(2 * time.Second)
	p.set("shop", "order", alarms, func(i int) time.Time { return due.Add(time.Duration(i) * 2 * time.Millisecond) })
	eventually(t, "rings arrive", func() bool { return shop.number() > alarms/10 })
	k.do("kill", dead)
	victim.kill()
	for _, name := range []string{"strict", "lone"} {
		p.set(name, name, few, func(int) time.Time { return time.Now() })
	}
	requireRungOnce(t, shop, alarms)
	eventually(t, "an alarm of the topic with too few replicas says why it does not ring", func() bool {
		return strings.Contains(p.must(http.StatusOK, http.MethodGet, alarmPath("strict", "strict-0"), nil).LastError, "the brokers did not take the ring")
	})
	eventually(t, "the alarms of the partitions with a leader ring", func() bool { return len(alone.all()) > 0 })
	waiting := 0
	for i := range few {
		if a := p.must(http.StatusOK, http.MethodGet, alarmPath("lone", fmt.Sprint("lone-", i)), nil); a.State == clock.Scheduled.String() {
			waiting++
			if a.RetryTimes != 0 {
				t.Errorf("without a leader a try was counted: %+v", a)
			}
		}
	}
	if waiting == 0 || strict.number() != 0 {
		t.Errorf("%d alarms without a leader wait, %d have rung with too few replicas", waiting, strict.number())
	}
	k.do("start", dead)
	requireRungOnce(t, alone, few)
	requireRungOnce(t, strict, few)
	for name, count := range map[string]int{"shop": alarms, "lone": few, "strict": few} {
		eventually(t, "all alarms are rung", func() bool { return p.inState(name, clock.Rung) == count })
	}
}

// kafkaBrokerStandsStill: a broker stands still. The topics that do not need it ring meanwhile. The topics with a replica
// there ring once Kafka has taken the broker out, while it still stands.
func kafkaBrokerStandsStill(t *testing.T, k *kafkaServers) {
	databaseURL := postgres(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, brokersEnv(k.cluster))
	_, shop := k.application(p, databaseURL, "shop", func(topic string) { k.cluster.CreateReplicated(topic, "2") })
	quick, rings := k.application(p, databaseURL, "quick", func(topic string) { k.cluster.CreateSingle(topic) })
	still := kafkaHosts[k.cluster.Leader(quick)%3+1]
	k.do("pause", still)
	const alarms = 300
	for _, name := range []string{"shop", "quick"} {
		p.set(name, name, alarms, func(int) time.Time { return time.Now() })
	}
	requireRungOnce(t, rings, alarms)
	requireRungOnce(t, shop, alarms)
	k.do("cont", still)
	for _, name := range []string{"shop", "quick"} {
		eventually(t, "all alarms are rung", func() bool { return p.inState(name, clock.Rung) == alarms })
	}
}

// kafkaDiskIsFull: the disk of a broker takes no byte more. Kafka gives the broker's partitions to others, and all alarms
// ring.
func kafkaDiskIsFull(t *testing.T, k *kafkaServers) {
	databaseURL := postgres(t)
	p := start(t, "CLOCKD_DATABASE_URL="+databaseURL, brokersEnv(k.cluster))
	topic, shop := k.application(p, databaseURL, "shop", func(topic string) { k.cluster.CreateReplicated(topic, "2") })
	full := k.cluster.Leader(topic)
	k.fill(kafkaHosts[full])
	const alarms = 1000
	due := time.Now()
	p.set("shop", "order", alarms, func(i int) time.Time { return due.Add(time.Duration(i) * 2 * time.Millisecond) })
	requireRungOnce(t, shop, alarms)
	if leader := k.cluster.Leader(topic); leader == full {
		t.Errorf("broker %d with a full disk still leads", full)
	}
	k.do("start", kafkaHosts[full])
	eventually(t, "all alarms are rung", func() bool { return p.inState("shop", clock.Rung) == alarms })
}
