package clockgrpc

import (
	"context"
	"errors"
	"slices"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// Rings serves the procedure Rings until the client leaves or the server stops.
func (s *Service) Rings(ctx context.Context, request *clockdv1.RingsRequest, stream *connect.ServerStream[clockdv1.RingsResponse]) error {
	if err := clock.ValidateApplication(request.Application); err != nil {
		return err
	}
	if err := s.host.RingsElsewhere(request.Application); err != nil {
		return err
	}
	c := callOf(ctx)
	sub := s.streams.Subscribe(request.Application)
	defer sub.Close()
	r := &ringStream{stream: stream, writer: &c.writer, timeout: s.cfg.WriteTimeout, flushed: func() clock.Flushed { return s.host.Flushed(c.request) }}
	if err := r.run(ctx, s.host.Stopping(), s.cfg.Heartbeat, sub); err != nil {
		s.host.Cut(c.request, err)
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return nil
}

// ringStream writes rings to one subscriber.
type ringStream struct {
	stream  *connect.ServerStream[clockdv1.RingsResponse]
	writer  *responseWriter
	timeout time.Duration        // longest time of one write
	flushed func() clock.Flushed // mark of the responses sent before
}

// run delivers rings. It returns nil when the client leaves or the server stops, and the error when a write fails.
func (r *ringStream) run(client context.Context, stopping <-chan struct{}, heartbeat time.Duration, sub clock.Subscription) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := r.send(nil) // a client may wait for the head of the response
	for err == nil {
		select {
		case d := <-sub.Deliveries():
			err = r.deliver(client, &d)
		case <-beat.C:
			err = r.send(nil)
		case <-client.Done():
			return nil
		case <-stopping:
			return nil
		}
	}
	return err
}

// send writes and flushes a response.
func (r *ringStream) send(rings []*clockdv1.Ring) error {
	if err := r.stream.Send(&clockdv1.RingsResponse{Rings: rings}); err != nil {
		return err
	}
	return r.writer.err // connect drops the error of the flush
}

// errUnwritten is the reason of rings that a panic has left unwritten.
var errUnwritten = errors.New("the rings were not written to the end")

// errTooLate is the reason of rings whose time limit has passed.
var errTooLate = errors.New("the time to write the ring was over")

// responseBytes is the size of rings in bytes at which they are written.
const responseBytes = 64 << 10

// deliver writes the rings of a delivery and reports the result to Delivery.Done. Each ring has rung when the kernel has it. It counts as begun
// before its write, because net/http may write buffered bytes after an error. When the time limit of the rings has passed, deliver writes no
// further one, and the stream goes on. Any other error ends the stream.
func (r *ringStream) deliver(client context.Context, d *clock.Delivery) error {
	var sent []sentRings
	begun, err := 0, errUnwritten
	defer func() { d.Done(writtenOf(sent), begun, err) }()
	if sent, begun, err = r.write(d); err != nil && !errors.Is(err, errTooLate) {
		return err
	}
	if len(sent) == 0 {
		return nil
	}
	if confirmErr := r.confirm(client, d.Context, sent[len(sent)-1].flushed); confirmErr != nil {
		err = confirmErr
	}
	return r.writer.err
}

// sentRings are the rings up to the end of a response that was flushed.
type sentRings struct {
	count   int
	flushed clock.Flushed
}

// writtenOf returns how many rings the kernel has for certain.
func writtenOf(sent []sentRings) int {
	for _, s := range slices.Backward(sent) {
		if s.flushed.Written() {
			return s.count
		}
	}
	return 0
}

// write writes the rings of a delivery. It returns what it has flushed, and how many rings it has begun to write.
func (r *ringStream) write(d *clock.Delivery) (sent []sentRings, begun int, err error) {
	defer r.writer.endWith(d.Context)()
	for begun < len(d.Rings) {
		if d.TooLateToWrite != nil && d.TooLateToWrite() || d.Context != nil && d.Context.Err() != nil {
			return sent, begun, errTooLate
		}
		rings := ringsOf(d.Rings[begun:])
		begun += len(rings)
		if err := r.send(rings); err != nil {
			return sent, begun, err
		}
		sent = append(sent, sentRings{begun, r.flushed()})
	}
	return sent, begun, nil
}

// confirm returns when the kernel has what was flushed. It flushes a response without rings for this. limit may be nil; it ends the wait, too.
func (r *ringStream) confirm(client, limit context.Context, flushed clock.Flushed) error {
	if flushed.Written() {
		return nil
	}
	if err := r.send(nil); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(client, r.timeout)
	defer cancel()
	if limit != nil {
		defer context.AfterFunc(limit, cancel)()
	}
	return flushed.Await(ctx)
}

// ringsOf returns the messages for the first rings, at least for one, until they have responseBytes.
func ringsOf(rings []clock.Ring) []*clockdv1.Ring {
	var all []*clockdv1.Ring
	for i, bytes := 0, 0; i < len(rings) && bytes < responseBytes; i++ {
		m := ringOf(&rings[i])
		all = append(all, m)
		bytes += proto.Size(m)
	}
	return all
}

// ringOf returns the message for a ring.
func ringOf(r *clock.Ring) *clockdv1.Ring {
	m := &clockdv1.Ring{
		MessageId: r.MessageID(), Application: r.Application, BusinessId: r.BusinessID, Generation: r.Generation, RingNo: int32(r.RingNo),
		RetryTimes: int32(r.RetryTimes()), RingAt: timestampOf(r.RingAt), RungAt: timestampOf(r.RungAt), ClaimId: text(r.ClaimID),
		ContentType: text(r.ContentType),
	}
	if r.AckTimeout > 0 {
		m.AckTimeout = durationpb.New(r.AckTimeout)
	}
	switch r.PayloadKind {
	case clock.JSON:
		m.Payload = &clockdv1.Ring_Json{Json: text(string(r.Payload))}
	case clock.Text:
		m.Payload = &clockdv1.Ring_Text{Text: text(string(r.Payload))}
	case clock.Binary:
		m.Payload = &clockdv1.Ring_Binary{Binary: r.Payload}
	case clock.NoPayload, clock.MessagePayload: // a message that cannot be unpacked has no body
	}
	return m
}
