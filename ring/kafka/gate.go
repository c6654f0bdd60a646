package kafka

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
)

var (
	errTooLate    = errors.New("the time to write the rings was over")
	errUnreadable = errors.New("a produce request cannot be read")
)

// maxProduceVersion is the newest version of produce requests that names topics. Later versions have only the ids of
// topics.
const maxProduceVersion = 12

// newestVersions returns the newest versions of requests that clockd sends.
func newestVersions() *kversion.Versions {
	v := kversion.Stable()
	v.SetMaxKeyVersion(kmsg.Produce.Int16(), maxProduceVersion)
	return v
}

// partition names one partition.
type partition struct {
	topic  string
	number int32
}

// gate decides for the connections of one link which produce requests are written. It knows of each partition whether
// a byte of a record may have left this process. So the outcome of a ring without a reply depends on the gate alone,
// and not on what the client remembers.
type gate struct {
	refusals chan struct{} // capacity 1; signalled when a request was refused
	placings chan struct{} // capacity 1; signalled when a record has its partition

	mu      sync.Mutex
	open    bool          // produce requests may be written, until the write limit
	limits  ring.Limits   // of the delivery
	acks    time.Duration // time that a leader has for the acks of its replicas
	sent    map[partition]bool
	refused map[partition]bool        // partitions of requests that were refused, or not written in whole
	place   map[*kgo.Record]partition // partition that the client chose for a record
}

var _ kgo.HookProduceRecordPartitioned = (*gate)(nil)

func newGate() *gate {
	return &gate{refusals: make(chan struct{}, 1), placings: make(chan struct{}, 1)}
}

// begin opens the gate for a delivery. A leader gets this time for the acks of its replicas.
func (g *gate) begin(limits ring.Limits, acks time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select { // a refusal after the delivery before
	case <-g.refusals:
	default:
	}
	g.open, g.limits, g.acks = true, limits, acks
	g.sent, g.refused, g.place = map[partition]bool{}, map[partition]bool{}, map[*kgo.Record]partition{}
}

// shut refuses all further produce requests. After its return the results of wasSent no longer change.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open = false
}

// mayWrite reports whether produce requests may still be written for the delivery.
func (g *gate) mayWrite() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open && !g.limits.TooLateToWrite()
}

// OnProduceRecordPartitioned notes the partition of a record. The client calls it before the record can be in a
// request.
func (g *gate) OnProduceRecordPartitioned(r *kgo.Record, _ int32) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.place[r] = partition{r.Topic, r.Partition}
	clock.Signal(g.placings)
}

// placed returns the number of records that have their partitions.
func (g *gate) placed() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.place)
}

// wasSent reports whether a byte of the record may have left this process.
func (g *gate) wasSent(r *kgo.Record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, placed := g.place[r]
	return placed && g.sent[p]
}

// wasRefused reports whether a request for the record's partition was refused. Then no reply to the record will come:
// the client repeats only failed records.
func (g *gate) wasRefused(r *kgo.Record) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	p, placed := g.place[r]
	return placed && g.refused[p]
}

// admit decides about a produce request for these partitions. The limits are for its write, and the time is for the
// leader.
func (g *gate) admit(partitions []partition) (ring.Limits, time.Duration, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.open || g.limits.TooLateToWrite() {
		g.refuse(partitions)
		return ring.Limits{}, 0, errTooLate
	}
	for _, p := range partitions {
		g.sent[p] = true
	}
	return g.limits, g.acks, nil
}

// admitPiece decides about the next piece of a produce request that admit has admitted with these limits.
func (g *gate) admitPiece(partitions []partition, limits ring.Limits) error {
	if !limits.TooLateToWrite() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse(partitions)
	return errTooLate
}

// refuse notes that a produce request was not written, or not in whole. The caller holds mu.
func (g *gate) refuse(partitions []partition) {
	for _, p := range partitions {
		g.refused[p] = true
	}
	clock.Signal(g.refusals)
}

// gatedConn is a connection of a link. The client writes each request with one call of Write.
type gatedConn struct {
	net.Conn

	gate *gate
}

// Write writes a request. It refuses a produce request after the write limit, and when no delivery is under way. After
// an error in the middle of a request the client closes the connection.
func (c *gatedConn) Write(request []byte) (int, error) {
	if !isProduce(request) {
		return c.Conn.Write(request)
	}
	produce, err := readProduce(request)
	if err != nil {
		return 0, err
	}
	limits, acks, err := c.gate.admit(produce.partitions)
	if err != nil {
		return 0, err
	}
	request = produce.withTimeout(request, acks)
	if err := c.SetWriteDeadline(limits.WriteBy); err != nil { // the client takes the deadline away after the write
		return 0, err
	}
	return ring.WriteWhile(c.Conn, request, func() error { return c.gate.admitPiece(produce.partitions, limits) })
}

// Sizes of the parts of a request's head, in bytes.
const (
	sizeBytes    = 4 // size of the rest
	keyBytes     = 2
	versionBytes = 2
	acksBytes    = 2
	headBytes    = sizeBytes + keyBytes + versionBytes + 4 + 2 // with the correlation id and the length of the client id
)

// isProduce reports whether a request is a produce request.
func isProduce(request []byte) bool {
	return len(request) >= headBytes && int16(binary.BigEndian.Uint16(request[sizeBytes:])) == kmsg.Produce.Int16()
}

// produce is what the gate reads of a produce request.
type produce struct {
	partitions []partition
	timeoutAt  int // where the request says how long the leader may wait for its replicas: 4 bytes, in milliseconds
}

// withTimeout returns the request with another time for the leader. The request itself stays as it is.
func (p *produce) withTimeout(request []byte, timeout time.Duration) []byte {
	ms := uint32(timeout.Milliseconds())
	if binary.BigEndian.Uint32(request[p.timeoutAt:]) == ms {
		return request
	}
	changed := bytes.Clone(request)
	binary.BigEndian.PutUint32(changed[p.timeoutAt:], ms)
	return changed
}

// readProduce reads a produce request.
func readProduce(request []byte) (*produce, error) {
	version := int16(binary.BigEndian.Uint16(request[sizeBytes+keyBytes:]))
	body := request[headBytes:]
	if n := int16(binary.BigEndian.Uint16(request[headBytes-2:])); n > 0 { // -1: no client id
		if int(n) > len(body) {
			return nil, errUnreadable
		}
		body = body[n:]
	}
	r := kmsg.NewPtrProduceRequest()
	r.SetVersion(version)
	if r.IsFlexible() { // the head ends with tags, of which the client writes none
		if len(body) == 0 || body[0] != 0 {
			return nil, errUnreadable
		}
		body = body[1:]
	}
	if version > maxProduceVersion || r.ReadFrom(body) != nil || r.TransactionID != nil {
		return nil, errUnreadable
	}
	p := &produce{timeoutAt: len(request) - len(body) + noTransactionBytes(r) + acksBytes}
	if int32(binary.BigEndian.Uint32(request[p.timeoutAt:])) != r.TimeoutMillis {
		return nil, errUnreadable
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p.partitions = append(p.partitions, partition{r.Topics[i].Topic, r.Topics[i].Partitions[j].Partition})
		}
	}
	return p, nil
}

// noTransactionBytes returns the size of the missing name of a transaction, with which the body begins.
func noTransactionBytes(r *kmsg.ProduceRequest) int {
	if r.IsFlexible() {
		return 1
	}
	return 2
}
