package clockgrpc

import (
	"context"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// Rings serves the procedure Rings until the client leaves, the server stops or the application's rings go elsewhere.
func (s *Service) Rings(
	ctx context.Context, request *clockdv1.RingsRequest, stream *connect.ServerStream[clockdv1.RingsResponse],
) error {
	if err := clock.ValidateApplication(request.Application); err != nil {
		return err
	}
	if err := s.elsewhere(request.Application); err != nil {
		return err
	}
	c := callOf(ctx)
	record := s.journal.Open(request.Application, request.ResumeAfter)
	defer record.Close()
	sub := s.streams.Subscribe(request.Application)
	defer sub.Close()
	r := ringstream.Stream{
		Writer: &ringWriter{stream, c}, Subscription: sub, Record: record,
		Timeout: s.cfg.WriteTimeout, Heartbeat: s.cfg.Heartbeat, Stopping: s.front.Stopping().Done(),
		Elsewhere: func() bool { return s.elsewhere(request.Application) != nil },
	}
	if err := r.Run(ctx); err != nil {
		s.front.Cut(c.request, err)
		return connect.NewError(connect.CodeUnavailable, err)
	}
	return s.elsewhere(request.Application)
}

var _ ringstream.StreamWriter = (*ringWriter)(nil)

// ringWriter writes rings as responses of a stream.
type ringWriter struct {
	stream *connect.ServerStream[clockdv1.RingsResponse]
	call   *call
}

// send writes and flushes a response.
func (w *ringWriter) send(response *clockdv1.RingsResponse) error {
	if err := w.stream.Send(response); err != nil {
		return err
	}
	return w.call.writer.err // connect drops the error of the flush
}

// Write sends a response with the first of the rings.
func (w *ringWriter) Write(rings []clock.Ring) (n int, err error) {
	messages := ringsOf(rings)
	return len(messages), w.send(&clockdv1.RingsResponse{Rings: messages})
}

// Begin sends the first response. It has no rings.
func (w *ringWriter) Begin(o ringstream.Opening) error {
	first := &clockdv1.RingsResponse{Position: &o.Position}
	if o.Resumed != ringstream.NotAsked {
		first.Resumed = new(o.Resumed == ringstream.Resumed)
	}
	return w.send(first)
}

// Beat sends a response without rings.
func (w *ringWriter) Beat() error { return w.send(&clockdv1.RingsResponse{}) }

// Flushed returns a mark of the responses that were sent before the call.
func (w *ringWriter) Flushed() clock.Flushed { return front.Flushed(w.call.request) }

// EndWith makes writes fail when ctx ends, until release is called.
func (w *ringWriter) EndWith(ctx context.Context) (release func()) {
	return w.call.writer.deadline.EndWith(ctx)
}

// responseBytes is the size of rings in bytes at which they are written.
const responseBytes = 64 << 10

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
		MessageId: r.MessageID(), Application: r.Application, BusinessId: r.BusinessID, Generation: r.Generation,
		RingNo:     int32(r.RingNo),
		RetryTimes: int32(r.RetryTimes()), RingAt: timestampOf(r.RingAt), RungAt: timestampOf(r.RungAt),
		ClaimId:     text(r.ClaimID),
		ContentType: text(r.ContentType),
	}
	if r.AckTimeout > 0 {
		m.AckTimeout = durationpb.New(r.AckTimeout)
	}
	if o := r.Occurrence(); o.At != 0 {
		previous, next := r.OccurrencesBeside()
		m.Occurrence = &clockdv1.RingOccurrence{Number: o.Number, At: timestampOf(clock.Instant(o.At)),
			PreviousAt: timestampOf(previous), NextAt: timestampOf(next)}
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
