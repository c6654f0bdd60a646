//go:build kafka

package bench

import (
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func TestRunMeasuresKafka(t *testing.T) {
	brokers := setting(t, "CLOCKD_TEST_KAFKA_BROKERS")
	runOnSQLite(t, func(databaseURL, amqpURL string) Config {
		cfg := quickConfig(databaseURL, amqpURL)
		cfg.KafkaBrokers, cfg.Only = brokers, []string{stageKafka}
		return cfg
	})
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(brokers, ",")...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	noneLeft(t, func() ([]string, error) {
		topics, err := kadm.NewClient(client).ListTopics(t.Context())
		return topics.Names(), err
	})
}
