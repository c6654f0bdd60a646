// Package kafkatest has what the tests of Kafka share: a cluster, its topics, and a consumer of their records.
//
// Tests of the contract run on Apache Kafka where CLOCKD_TEST_KAFKA_BROKERS names a broker, as make test-kafka does, and
// otherwise on kfake, the fake cluster of franz-go: it speaks the protocol over TCP, checks batches, checksums and
// sequences, and keeps records in memory. It has no replicas and no disk. Only kfake can reply what a test wants, and
// move the leader of a partition at once: tests that need this call OpenFake.
package kafkatest
