package kafka

import (
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
func produceRequest(topic string, batch int) []byte {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = 1, make([]byte, batch)
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, []kmsg.ProduceRequestTopicPartition{p}
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(9)
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
	}})
	record := &kgo.Record{Topic: "rings.shop", Partition: 1}
	g.OnProduceRecordPartitioned(record, 0)
	n, err := (&gatedConn{Conn: near, gate: g}).Write(produceRequest("rings.shop", 5*ring.WritePiece))
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
