//go:build soak

package main

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/ring/kafka/kafkatest"
)

// Each host of a Kafka cluster is killed and started again in turn. Rings go on while a host is down, because two of
// three replicas are in sync. At the end every accepted alarm has rung, and no cancelled alarm has rung.
func TestSoakNoAlarmIsLostWhileKafkaHostsDieInTurn(t *testing.T) {
	hosts := []string{"kafka", "kafka2", "kafka3"}
	s := startPrivateServers(t, hosts...)
	for _, e := range sharedEngines() {
		t.Run(e.name, func(t *testing.T) {
			s := s.in(t)
			cluster := kafkatest.Connect(t, strings.Split(s.env["CLOCKD_TEST_KAFKA_BROKERS"], ",")...)
			cluster.AwaitVoters(len(hosts))
			topic := kafkatest.Unique("shop")
			cluster.CreateReplicated(topic, "2")
			got := consume(cluster, topic)
			databaseURL := e.open(t)
			var nodes []*process
			for _, name := range []string{"one", "two"} {
				nodes = append(nodes, start(t, "CLOCKD_DATABASE_URL="+databaseURL, "CLOCKD_NODE="+name, brokersEnv(cluster)))
			}
			application(t, databaseURL, "set", "shop", "--target=kafka", "--kafka-topic="+topic)
			for _, p := range nodes {
				eventually(t, "the node applies the target", func() bool { return p.settings("shop").AppliedTarget == "kafka" })
			}
			l := startClusterLoad(t, nodes)
			for _, host := range hosts {
				awaitMore(t, "rings before a host dies", got)
				s.do("kill", host)
				awaitMore(t, "rings while "+host+" is down", got)
				s.do("start", host)
				eventually(t, "all replicas are in sync", func() bool { return cluster.InSync(topic) == len(hosts) })
			}
			l.stop()
			l.requireRung(t, nodes[0], got)
		})
	}
}
