package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/clockd/clockd/ring"
)

// produceRequest returns a produce request with one large batch.
func produceRequest(version int16, topic string, batch int) []byte {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, make([]byte, batch)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(version)
	r.TimeoutMillis = 7000
	r.Topics = []kmsg.ProduceRequestTopic{t}
	return kmsg.NewRequestFormatter().AppendRequest(nil, r, 1)
}

// A large produce request is written in pieces. Its write ends at the first look at the clock after the write limit.
// Its records may have left, and get no reply.
func TestWriteLimitHoldsForEachPieceOfAProduceRequest(t *testing.T) {
	near, far := net.Pipe()
	received := make(chan int64, 1)
	go func() {
		n, _ := io.Copy(io.Discard, far) // ends with the connection
		received <- n
	}()
	g := newGate()
	looks := 0
	g.begin(ring.Limits{WriteBy: time.Now().Add(time.Minute), Suspended: func() time.Duration {
		if looks++; looks > 3 { // one look admits the request, one each piece
			return time.Hour
		}
		return 0
	}}, time.Second)
	record := &kgo.Record{Topic: "rings.shop", Partition: 1}
	g.OnProduceRecordPartitioned(record, 0)
	n, err := (&gatedConn{Conn: near, gate: g}).Write(produceRequest(9, "rings.shop", 5*ring.WritePiece))
	_ = near.Close()
	if n != 2*ring.WritePiece || !errors.Is(err, errTooLate) {
		t.Errorf("%d bytes, want %d; %v", n, 2*ring.WritePiece, err)
	}
	if got := <-received; got != int64(n) {
		t.Errorf("the broker has %d bytes of %d", got, n)
	}
	if !g.wasSent(record) || !g.wasRefused(record) {
		t.Errorf("sent: %t, refused: %t", g.wasSent(record), g.wasRefused(record))
	}
	select {
	case <-g.refusals:
	default:
		t.Error("no signal of the refusal")
	}
}

// The gate tells the leader how long it may wait for its replicas, and changes nothing else.
func TestGateSetsTheTimeForAcks(t *testing.T) {
	for _, version := range []int16{8, 9, maxProduceVersion} {
		near, far := net.Pipe()
		received := make(chan []byte, 1)
		go func() {
			request, _ := io.ReadAll(far) // ends with the connection
			received <- request
		}()
		g := newGate()
		g.begin(ring.Limits{WriteBy: time.Now().Add(time.Minute)}, 1234*time.Millisecond)
		request := produceRequest(version, "rings.shop", 100)
		original := bytes.Clone(request)
		if _, err := (&gatedConn{Conn: near, gate: g}).Write(request); err != nil {
			t.Fatal(err)
		}
		_ = near.Close()
		got := <-received
		p, err := readProduce(got)
		if err != nil {
			t.Fatal(err)
		}
		if ms := binary.BigEndian.Uint32(got[p.timeoutAt:]); ms != 1234 {
			t.Errorf("version %d: the leader has %d ms", version, ms)
		}
		if !bytes.Equal(request, original) {
			t.Errorf("version %d: the caller's request has changed", version)
		}
		if !bytes.Equal(p.withTimeout(got, 7*time.Second), original) {
			t.Errorf("version %d: more than the time has changed", version)
		}
	}
}
