package clockgrpc

import (
	"context"
	"errors"
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
	r := &ringStream{stream: stream, writer: &c.writer}
	if err := r.run(ctx, s.host.Stopping(), s.cfg.Heartbeat, sub); err != nil {
		s.host.Cut(c.request, err)
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return nil
}

// ringStream writes rings to one subscriber.
type ringStream struct {
	stream *connect.ServerStream[clockdv1.RingsResponse]
	writer *responseWriter
}

// run delivers rings. It returns nil when the client leaves or the server stops, and the error when a write fails.
func (r *ringStream) run(client context.Context, stopping <-chan struct{}, heartbeat time.Duration, sub clock.Subscription) error {
	beat := time.NewTicker(heartbeat)
	defer beat.Stop()
	err := r.send(nil) // a client may wait for the head of the response
	for err == nil {
		select {
		case d := <-sub.Deliveries():
			err = r.deliver(&d)
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

// deliver writes the rings of a delivery and reports the result to Delivery.Done. Each ring has rung when it is flushed. It counts as begun before
// its write, because net/http may write buffered bytes after an error. When the time limit of the rings has passed, deliver writes no further
// one, and the stream goes on. Any other error ends the stream.
func (r *ringStream) deliver(d *clock.Delivery) error {
	written, begun, err := 0, 0, errUnwritten
	defer func() { d.Done(written, begun, err) }()
	defer r.writer.endWith(d.Context)()
	for written < len(d.Rings) {
		rings := ringsOf(d.Rings[written:])
		if d.TooLateToWrite != nil && d.TooLateToWrite() || d.Context != nil && d.Context.Err() != nil {
			err = errTooLate
			return nil
		}
		begun = written + len(rings)
		err = r.send(rings)
		if err != nil {
			return err
		}
		written = begun
	}
	err = nil
	return nil
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
