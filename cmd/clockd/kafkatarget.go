package main

import (
	"errors"

	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/kafka"
)

// kafkaFlags configure the connections to Kafka.
type kafkaFlags struct {
	KafkaBrokers  []string `env:"CLOCKD_KAFKA_BROKERS" placeholder:"HOST:PORT,..." help:"Brokers of Kafka to begin with. Without them this process rings to no topic."`
	KafkaTLS      bool     `name:"kafka-tls" env:"CLOCKD_KAFKA_TLS" help:"Connect to Kafka with TLS."`
	KafkaCA       string   `name:"kafka-ca" env:"CLOCKD_KAFKA_CA" placeholder:"FILE" help:"PEM file of the authorities of the brokers' certificates (default: the system's)."`
	KafkaCert     string   `env:"CLOCKD_KAFKA_CERT" placeholder:"FILE" help:"PEM file of this client's certificate, with --kafka-key."`
	KafkaKey      string   `name:"kafka-key" env:"CLOCKD_KAFKA_KEY" placeholder:"FILE" help:"PEM file of the key of the client's certificate."`
	KafkaSASL     string   `name:"kafka-sasl" env:"CLOCKD_KAFKA_SASL" default:"none" enum:"none,plain,scram-sha-256,scram-sha-512" help:"none, plain, scram-sha-256 or scram-sha-512."`
	KafkaUser     string   `env:"CLOCKD_KAFKA_USER" placeholder:"NAME" help:"User for SASL."`
	KafkaPassword string   `env:"CLOCKD_KAFKA_PASSWORD" placeholder:"PASSWORD" help:"Password for SASL."`
}

// usesKafka reports whether rings may go to Kafka.
func (f *kafkaFlags) usesKafka() bool { return len(f.KafkaBrokers) > 0 }

// named reports whether an option besides the brokers is given.
func (f *kafkaFlags) named() bool {
	return f.KafkaTLS || f.KafkaCA != "" || f.KafkaCert != "" || f.KafkaKey != "" ||
		f.KafkaSASL != "" && f.KafkaSASL != kafka.NoSASL ||
		f.KafkaUser != "" || f.KafkaPassword != ""
}

// kafkaConfig returns the configuration of the target. It reads the files of TLS.
func (f *kafkaFlags) kafkaConfig() (kafka.Config, error) {
	cfg := kafka.DefaultConfig()
	cfg.Brokers, cfg.User, cfg.Password = f.KafkaBrokers, f.KafkaUser, f.KafkaPassword
	if f.KafkaSASL != "" {
		cfg.SASL = f.KafkaSASL
	}
	if !f.KafkaTLS {
		if f.KafkaCA != "" || f.KafkaCert != "" || f.KafkaKey != "" {
			return cfg, errors.New("certificates for Kafka are given, but not --kafka-tls")
		}
		return cfg, nil
	}
	var err error
	cfg.TLS, err = outgoingTLS{"Kafka", f.KafkaCA, f.KafkaCert, f.KafkaKey}.config()
	return cfg, err
}

// openKafka opens the topics of Kafka. Claims of the route hold their transactions, because brokers reply in
// milliseconds, and the wait for replies is bounded, as with RabbitMQ. A broker replies to the rings of several
// applications at once, so replies are not separate.
func openKafka(_ *targets, d targetDeps) (*openTarget, error) {
	topics, err := kafka.New(d.cfg.kafka, kafka.Deps{
		Topics: kafka.Part.In(d.watch), Own: kafka.Part.OwnIn(d.watch), Log: d.log,
	})
	if err != nil {
		return nil, err
	}
	return &openTarget{
		Route:  ring.Route{Name: "kafka", Target: topics, HoldsClaims: true},
		follow: topics.TopicsChanged, run: topics.Run,
	}, nil
}
