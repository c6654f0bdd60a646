package clockgrpc_test

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// subscription receives the responses of one stream of rings.
type subscription func() (*clockdv1.RingsResponse, error)

// next returns the next rings. It passes over responses without rings.
func (s subscription) next(t *testing.T) []*clockdv1.Ring {
	t.Helper()
	for {
		response, err := s()
		if err != nil {
			t.Fatal(err)
		}
		if len(response.Rings) > 0 {
			return response.Rings
		}
	}
}

// subscribe opens a stream over gRPC, and waits for its first response.
func (s *service) subscribe(ctx context.Context, conn *grpc.ClientConn) subscription {
	s.t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedure("Rings"))
	if err == nil {
		err = errors.Join(stream.SendMsg(&clockdv1.RingsRequest{Application: "shop"}), stream.CloseSend())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	receive := func() (*clockdv1.RingsResponse, error) {
		response := new(clockdv1.RingsResponse)
		return response, stream.RecvMsg(response)
	}
	if response, err := receive(); err != nil || len(response.Rings) > 0 {
		s.t.Fatalf("the first response: %v, %v", response, err)
	}
	return receive
}

// subscribeJSON opens a stream over HTTP/1.1 and JSON, and waits for its first response.
func (s *service) subscribeJSON(ctx context.Context) subscription {
	s.t.Helper()
	request := []byte(`{"application":"shop"}`)
	body := string(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(request)))) + string(request)
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+s.addr+procedure("Rings"),
		strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/connect+json")
	response, err := s.web.Do(r)
	if err != nil || response.StatusCode != http.StatusOK || response.ProtoMajor != 1 {
		s.t.Fatalf("%v, %v", response, err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	in := bufio.NewReader(response.Body)
	receive := func() (*clockdv1.RingsResponse, error) {
		head := make([]byte, 5)
		if _, err := io.ReadFull(in, head); err != nil {
			return nil, err
		}
		message := make([]byte, binary.BigEndian.Uint32(head[1:]))
		if _, err := io.ReadFull(in, message); err != nil {
			return nil, err
		}
		if head[0] != 0 { // the end of the stream
			if string(message) != "{}" {
				return nil, fmt.Errorf("the stream ended with %s", message)
			}
			return nil, io.EOF
		}
		rings := new(clockdv1.RingsResponse)
		return rings, protojson.Unmarshal(message, rings)
	}
	if first, err := receive(); err != nil || len(first.Rings) > 0 {
		s.t.Fatalf("the first response: %v, %v", first, err)
	}
	return receive
}

// subscribeEvents opens a stream of server-sent events. Its responses have the message ids alone.
func (s *service) subscribeEvents(ctx context.Context) subscription {
	s.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/v1/applications/shop/rings", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response, err := s.web.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%v, %v", response, err)
	}
	s.t.Cleanup(func() { _ = response.Body.Close() })
	lines := bufio.NewScanner(response.Body)
	return func() (*clockdv1.RingsResponse, error) {
		for lines.Scan() {
			if id, is := strings.CutPrefix(lines.Text(), "id: "); is && !strings.HasPrefix(id, "stream-") {
				return &clockdv1.RingsResponse{Rings: []*clockdv1.Ring{{MessageId: id}}}, nil
			}
		}
		return nil, errors.Join(lines.Err(), io.EOF)
	}
}

func TestRingHasWhatTheSetGave(t *testing.T) {
	t.Parallel()
	for name, subscribe := range map[string]func(s *service) subscription{
		"grpc": func(s *service) subscription { return s.subscribe(t.Context(), s.grpc()) },
		"json": func(s *service) subscription { return s.subscribeJSON(t.Context()) },
	} {
		s := start(t)
		in := subscribe(s)
		spec := alarm("order", 0)
		spec.Payload, spec.AckTimeout = &clockdv1.AlarmSpec_Json{Json: "[\n1]"}, durationpb.New(time.Minute)
		set := must(t, s.callers()[0], "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec},
			&clockdv1.SetResponse{}).Alarm
		r := in.next(t)[0]
		if r.Application != "shop" || r.BusinessId != set.BusinessId || r.Generation != 1 || r.RingNo != 1 ||
			r.RetryTimes != 0 || r.GetJson() != "[\n1]" ||
			!r.RingAt.AsTime().Equal(set.RingAt.AsTime()) || r.RungAt.AsTime().Before(r.RingAt.AsTime()) ||
			r.ClaimId == "" || r.AckTimeout.AsDuration() != time.Minute ||
			r.ContentType != "application/json" || !strings.HasSuffix(r.MessageId, ".1.1") {
			t.Errorf("%s: %v", name, r)
		}
	}
}

// All subscribers of an application share its rings, over whatever protocol they come.
func TestSubscribersOfAllProtocolsShareTheRings(t *testing.T) {
	t.Parallel()
	s := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	conn := s.grpc()
	got := make(chan string)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	for _, in := range []subscription{s.subscribe(ctx, conn), s.subscribe(ctx, conn), s.subscribeJSON(ctx), s.subscribeEvents(ctx)} {
		running.Go(func() {
			for response, err := in(); err == nil; response, err = in() {
				for _, r := range response.Rings {
					select {
					case got <- r.MessageId:
					case <-ctx.Done():
						return
					}
				}
			}
		})
	}
	const count = 300
	set := make(chan *failure, 1)
	running.Go(func() { set <- s.setNow(ctx, conn, count) })
	seen := map[string]bool{}
	for done := false; len(seen) < count || !done; { // a ring may come before the response to its set
		select {
		case id := <-got:
			if seen[id] {
				t.Errorf("%s rang twice", id)
			}
			seen[id] = true
		case f := <-set:
			if done = true; f != nil {
				t.Fatalf("set: %v", f)
			}
		}
	}
}

// setNow sets alarms that are due at once. It returns the first failure, nil without one.
func (s *service) setNow(ctx context.Context, conn *grpc.ClientConn, count int) *failure {
	for i := range count {
		request := &clockdv1.SetRequest{Application: "shop", Alarm: alarm(fmt.Sprint("order-", i), 0)}
		if err := conn.Invoke(ctx, procedure("Set"), request, &clockdv1.SetResponse{}); err != nil {
			return grpcFailure(s.t, err)
		}
	}
	return nil
}

// A client resumes its stream over gRPC: rings that it has not received ring again under the same message id, also
// without ack_timeout.
func TestStreamResumesOverGRPC(t *testing.T) {
	t.Parallel()
	s := start(t)
	conn := s.grpc()
	ctx, cancel := context.WithCancel(t.Context())
	first := s.resume(ctx, conn, "")
	if r, err := first(); err != nil || r.GetPosition() == "" || r.Resumed != nil {
		t.Fatalf("%v, %v", r, err)
	}
	var ids []string
	for i := range 3 {
		must(t, s.callers()[0], "Set",
			&clockdv1.SetRequest{Application: "shop", Alarm: alarm(fmt.Sprint("order-", i), 0)},
			&clockdv1.SetResponse{})
		ids = append(ids, first.next(t)[0].MessageId)
	}
	cancel()
	second := s.resume(t.Context(), conn, ids[0]) // as if the later responses had been lost
	if r, err := second(); err != nil || r.GetPosition() == "" || !r.GetResumed() {
		t.Fatalf("%v, %v", r, err)
	}
	again := map[string]bool{}
	for len(again) < 2 {
		for _, r := range second.next(t) {
			again[r.MessageId] = true
		}
	}
	if !again[ids[1]] || !again[ids[2]] {
		t.Errorf("%v rang again, want %v", again, ids[1:])
	}
	if r, err := s.resume(t.Context(), conn, "99.1.1")(); err != nil || r.Resumed == nil || r.GetResumed() {
		t.Errorf("%v, %v", r, err)
	}
}

// resume opens a stream over gRPC that resumes after an id.
func (s *service) resume(ctx context.Context, conn *grpc.ClientConn, after string) subscription {
	s.t.Helper()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedure("Rings"))
	if err == nil {
		err = errors.Join(stream.SendMsg(&clockdv1.RingsRequest{Application: "shop", ResumeAfter: after}),
			stream.CloseSend())
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return func() (*clockdv1.RingsResponse, error) {
		response := new(clockdv1.RingsResponse)
		return response, stream.RecvMsg(response)
	}
}

// fakeStreams gives all subscribers the same channel of deliveries.
type fakeStreams struct {
	deliveries chan clock.Delivery
	closed     chan struct{} // receives a value when a subscription closes
}

func (f *fakeStreams) Subscribe(string) clock.Subscription { return f }
func (f *fakeStreams) Deliveries() <-chan clock.Delivery   { return f.deliveries }
func (f *fakeStreams) Close()                              { f.closed <- struct{}{} }

func newFakeStreams() *fakeStreams {
	return &fakeStreams{deliveries: make(chan clock.Delivery), closed: make(chan struct{}, 10)}
}

// report is what a delivery reports.
type report struct {
	written, begun int
	err            error
}

// deliver gives a delivery to a subscriber.
func (f *fakeStreams) deliver(d clock.Delivery) <-chan report {
	done := make(chan report, 2)
	d.Done = func(written, begun int, err error) { done <- report{written, begun, err} }
	f.deliveries <- d
	return done
}

func testRing(payload string) clock.Ring {
	return clock.Ring{
		AlarmID: 7, Key: clock.Key{Application: "shop", BusinessID: "a"}, Generation: 3, RingNo: 2,
		Before: clock.RingRow{RetryTimes: 1},
		RingAt: 1000, RungAt: 1001, ClaimID: "c1", Payload: []byte(payload), PayloadKind: clock.Text,
		ContentType: "text/plain",
	}
}

// largeRings returns rings of which each takes a response to itself.
func largeRings(count int) []clock.Ring {
	rings := make([]clock.Ring, count)
	for i := range rings {
		rings[i] = testRing(strings.Repeat("x", 64<<10))
		rings[i].AlarmID = int64(i + 1)
	}
	return rings
}

// A subscriber that reads nothing leaves only the rings of the last two responses in doubt. Its connection goes on.
func TestSlowSubscriberIsCutAndItsConnectionGoesOn(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	s := start(t, func(su *setup) { su.streams, su.web.WriteTimeout = f, 300*time.Millisecond })
	conn := s.grpc()
	in := s.subscribe(t.Context(), conn)
	got := <-f.deliver(clock.Delivery{Rings: largeRings(1000)})
	if got.err == nil || got.begun <= got.written || got.begun > got.written+2 || got.begun >= 1000 {
		t.Errorf("%+v", got)
	}
	<-f.closed
	if err := conn.Invoke(t.Context(), procedure("Get"), &clockdv1.GetRequest{Application: "shop", BusinessId: "a"}, &clockdv1.GetResponse{}); grpcFailure(t, err).code != codes.NotFound {
		t.Errorf("another call on the connection: %v", err)
	}
	last := int64(0)
	for {
		response, err := in()
		if err != nil {
			break
		}
		for _, r := range response.Rings {
			if _, err := fmt.Sscanf(r.MessageId, "%d.", &last); err != nil || last > int64(got.begun) {
				t.Errorf("the subscriber got %s, and %d are begun", r.MessageId, got.begun)
			}
		}
	}
}

func TestSlowSubscriberOverHTTP1IsCut(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	s := start(t, func(su *setup) { su.streams, su.web.WriteTimeout = f, 300*time.Millisecond })
	in := s.subscribeJSON(t.Context())
	got := <-f.deliver(clock.Delivery{Rings: largeRings(1000)})
	if got.err == nil || got.begun != got.written+1 || got.begun >= 1000 {
		t.Errorf("%+v", got)
	}
	<-f.closed
	var err error
	for err == nil {
		_, err = in()
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && err.Error() == "EOF" {
		t.Error("the cut stream ended as if it were complete")
	}
}

func TestLeavingSubscriberEndsItsSubscription(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	s := start(t, func(su *setup) { su.streams = f })
	ctx, cancel := context.WithCancel(t.Context())
	s.subscribe(ctx, s.grpc())
	cancel()
	<-f.closed
	conn := s.grpc()
	s.subscribe(t.Context(), conn)
	_ = conn.Close()
	<-f.closed
	ctx, cancel = context.WithCancel(t.Context())
	s.subscribeJSON(ctx)
	cancel()
	<-f.closed
}

func TestSilentStreamHasAHeartbeatPastTheWriteTimeout(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	s := start(t, func(su *setup) {
		su.streams, su.web.WriteTimeout, su.web.Heartbeat = f, time.Second, 1500*time.Millisecond
	})
	for name, in := range map[string]subscription{"grpc": s.subscribe(t.Context(), s.grpc()), "json": s.subscribeJSON(t.Context())} {
		for range 3 {
			if response, err := in(); err != nil || len(response.Rings) > 0 {
				t.Fatalf("%s: %v, %v", name, response, err)
			}
		}
	}
}

func TestStreamsEndWithoutAnErrorWhenTheNodeStops(t *testing.T) {
	t.Parallel()
	s := start(t)
	over, plain := s.subscribe(t.Context(), s.grpc()), s.subscribeJSON(t.Context())
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.endServer() }()
	for name, in := range map[string]subscription{"grpc": over, "json": plain} {
		if _, err := in(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
	}
	<-stopped
}

func TestRingsOfOtherTargetsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.streams = nil })
	stream, err := s.grpc().NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true}, procedure("Rings"))
	if err == nil {
		err = errors.Join(stream.SendMsg(&clockdv1.RingsRequest{Application: "shop"}), stream.CloseSend())
	}
	if err != nil {
		t.Fatal(err)
	}
	if f := grpcFailure(t, stream.RecvMsg(&clockdv1.RingsResponse{})); f.code != codes.FailedPrecondition ||
		f.problem.GetCode() != "rings_go_elsewhere" {
		t.Errorf("%v", f)
	}
}

// TestStreamEndsWhenRingsGoElsewhere changes the target of the application under an open stream.
func TestStreamEndsWhenRingsGoElsewhere(t *testing.T) {
	t.Parallel()
	var elsewhere atomic.Bool
	s := start(t, func(su *setup) {
		su.streams, su.web.Heartbeat = newFakeStreams(), 20*time.Millisecond
		su.elsewhere = func(string) error {
			if elsewhere.Load() {
				return &front.Problem{Status: http.StatusConflict, Code: "rings_go_elsewhere"}
			}
			return nil
		}
	})
	receive := s.subscribe(t.Context(), s.grpc())
	elsewhere.Store(true)
	var err error
	for err == nil {
		_, err = receive()
	}
	if f := grpcFailure(t, err); f.code != codes.FailedPrecondition || f.problem.GetCode() != "rings_go_elsewhere" {
		t.Errorf("%v", f)
	}
}

// Rings that are too late are not written, and the stream goes on.
func TestLateRingsAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, subscribe := range map[string]func(s *service) subscription{
		"grpc": func(s *service) subscription { return s.subscribe(t.Context(), s.grpc()) },
		"json": func(s *service) subscription { return s.subscribeJSON(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeStreams()
			lateRings(t, f, subscribe(start(t, func(su *setup) { su.streams = f })))
		})
	}
}

func lateRings(t *testing.T, f *fakeStreams, in subscription) {
	if got := <-f.deliver(clock.Delivery{Rings: largeRings(1), TooLateToWrite: func() bool { return true }}); got.err == nil || got.begun > 0 {
		t.Errorf("late rings: %+v", got)
	}
	asked := 0
	done := f.deliver(clock.Delivery{Rings: largeRings(2), TooLateToWrite: func() bool { asked++; return asked > 1 }})
	if r := in.next(t); len(r) != 1 || r[0].MessageId != "1.3.2" { // a large ring is written only while the client reads
		t.Errorf("%d rings", len(r))
	}
	if got := <-done; got.err == nil || got.written != 1 || got.begun != 1 {
		t.Errorf("rings that become too late: %+v", got)
	}
	for i := range 20 { // the end of a delivery's context between two writes ends no later write
		ctx, cancel := context.WithCancel(t.Context())
		if i%2 > 0 {
			cancel()
		}
		got := <-f.deliver(clock.Delivery{Rings: []clock.Ring{testRing("afterwards")}, Context: ctx})
		if i%2 > 0 && (got.err == nil || got.begun > 0) || i%2 == 0 && got.err != nil {
			t.Errorf("delivery %d: %+v", i, got)
		}
		if i%2 == 0 {
			if r := in.next(t); r[0].GetText() != "afterwards" {
				t.Errorf("%v", r)
			}
		}
		cancel()
	}
}

// When the delivery's context ends, a blocked write fails, and the stream ends with it.
func TestEndOfDeliveryEndsItsBlockedWrite(t *testing.T) {
	t.Parallel()
	f := newFakeStreams()
	s := start(t, func(su *setup) { su.streams = f })
	in := s.subscribe(t.Context(), s.grpc())
	got := report{err: ringstream.ErrTooLate}
	for wait := time.Millisecond; errors.Is(got.err, ringstream.ErrTooLate); wait *= 2 { // the end came between two writes
		ctx, cancel := context.WithCancel(t.Context())
		done := f.deliver(clock.Delivery{Rings: largeRings(1000), Context: ctx})
		in.next(t)
		<-time.After(wait)
		cancel()
		got = <-done
	}
	if got.err == nil || got.begun >= 1000 || got.begun > got.written+2 {
		t.Errorf("%+v", got)
	}
	<-f.closed
}
