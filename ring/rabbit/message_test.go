package rabbit

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"strconv"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
	"github.com/clockd/clockd/ring/rabbit/internal/wire"
)

// Every message equals the library's encoding byte for byte, except for the order of its headers.
func TestMessagesEqualTheLibrarysByteForByte(t *testing.T) {
	t.Parallel()
	for _, frameMax := range []uint32{4096, 131072, 0} {
		want, got := make(chan []scripted.Frame, 1), make(chan []scripted.Frame, 1)
		s := scripted.Start(t, frameMax, func(s *scripted.Broker) {
			s.SendMethod(s.Until(scripted.ChannelOpen).Channel, scripted.ChannelOpenOk, make([]byte, 4))
			for m := s.Messages(1); m != nil; m = s.Messages(1) {
				want <- m
			}
		})
		conn, err := amqp.DialConfig(s.URL(), amqp.Config{FrameSize: amqp.FrameSizeUnlimited})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Listener.Close(); _ = s.Conn.Close(); _ = conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		ours := scripted.Start(t, frameMax, func(s *scripted.Broker) {
			s.OpenConfirmChannel()
			for m := s.Messages(1); m != nil; m = s.Messages(1) {
				got <- m
			}
		})
		l := laneTo(t, ours, 0)
		if err := l.Open(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ours.Listener.Close(); _ = ours.Conn.Close() })
		rapid.Check(t, func(t *rapid.T) {
			r := drawRing(t, conn.Config.FrameSize)
			e := newMessageEncoder("clock.test",
				rapid.SampledFrom([]Headers{FullHeaders, LeanHeaders}).Draw(t, "headers"))
			to := &address{exchange: "clock.test", routingKey: r.Application,
				headers:    rapid.SampledFrom([]map[string]string{nil, {"x-a": "ä"}, {"x-a": "", "b": "c"}}).Draw(t, "own headers"),
				expiration: rapid.SampledFrom([]time.Duration{0, time.Millisecond, maxExpiration}).Draw(t, "expiration")}
			message := publishing(&r, "clock.test.answers", e.headers)
			for name, value := range to.headers {
				message.Headers[name] = value
			}
			if to.expiration > 0 {
				message.Expiration = strconv.FormatInt(to.expiration.Milliseconds(), 10)
			}
			if err := ch.Publish("clock.test", r.Application, true, false, message); err != nil {
				t.Fatal(err)
			}
			head, err := e.encode(&r, to, l.ch.ID)
			if err != nil {
				t.Fatal(err)
			}
			if err := l.link.Publish(l.ch.Channel, head, r.Payload); err != nil {
				t.Fatal(err)
			}
			compareFrames(t, <-got, <-want)
		})
	}
}

// buffer is the size of the buffer through which a connection writes messages.
const buffer = 16 << 10

// drawRing draws a ring. Its body ends near the end of a frame, near the end of the buffer, or anywhere.
func drawRing(t *rapid.T, frameMax int) clock.Ring {
	room := max(frameMax-scripted.FrameRest, 0)
	sizes := rapid.OneOf(
		rapid.SampledFrom([]int{0, 1, max(room-1, 0), room, room + 1, max(2*room-1, 0), 2 * room, 3*room + 1,
			buffer - 7, buffer}),
		rapid.IntRange(0, 300),
	)
	number := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.SampledFrom([]int64{1<<31 - 1, math.MaxInt64}))
	return clock.Ring{
		AlarmID:    number.Draw(t, "id"),
		Generation: number.Draw(t, "generation"),
		Key: clock.Key{
			Application: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`).Draw(t, "application"),
			BusinessID:  rapid.StringN(1, -1, wire.MaxShortString).Draw(t, "business id"),
		},
		RingNo:      rapid.IntRange(1, 1<<31-1).Draw(t, "ring no"),
		Before:      clock.RingRow{RetryTimes: rapid.IntRange(0, 1<<31-1).Draw(t, "retry times")},
		RingAt:      clock.Instant(rapid.Int64Range(-1500, 1<<48).Draw(t, "ring at")),
		RungAt:      clock.Instant(rapid.Int64Range(0, 1<<48).Draw(t, "rung at")),
		ClaimID:     rapid.String().Draw(t, "claim id"),
		Payload:     bytes.Repeat([]byte{rapid.Byte().Draw(t, "payload")}, sizes.Draw(t, "size")),
		ContentType: rapid.StringN(0, -1, wire.MaxShortString).Draw(t, "content type"),
		AckTimeout:  rapid.SampledFrom([]time.Duration{0, time.Minute}).Draw(t, "ack timeout"),
		Priority:    rapid.IntRange(0, 9).Draw(t, "priority"),
		Traceparent: rapid.SampledFrom([]string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}).Draw(t,
			"traceparent"),
	}
}

// publishing returns the message in the library's form.
func publishing(r *clock.Ring, replyTo string, headers Headers) amqp.Publishing {
	p := amqp.Publishing{
		Headers: amqp.Table{
			"x-application": r.Application, "x-business-id": r.BusinessID, "x-target-ring-at": int64(r.RingAt),
			"x-rung-at": int64(r.RungAt), "x-generation": r.Generation, "x-ring-no": int32(r.RingNo),
			"x-retry-times": int32(r.RetryTimes()), "x-claim-id": r.ClaimID,
		},
		ContentType: r.ContentType, DeliveryMode: amqp.Persistent, Priority: uint8(r.Priority),
		CorrelationId: r.BusinessID,
		MessageId:     r.MessageID(), Timestamp: time.UnixMilli(int64(r.RingAt)), Type: "alarm.ring", AppId: "clockd",
		Body: r.Payload,
	}
	if headers == LeanHeaders {
		for _, name := range []string{"x-application", "x-business-id", "x-generation", "x-ring-no"} {
			delete(p.Headers, name)
		}
	}
	if r.AckTimeout > 0 {
		p.ReplyTo = replyTo
	}
	if r.Traceparent != "" {
		p.Headers["traceparent"] = r.Traceparent
	}
	return p
}

func compareFrames(t *rapid.T, got, want []scripted.Frame) {
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.Kind == scripted.KindHeader && w.Kind == scripted.KindHeader {
			var gotTable, wantTable map[string]string
			g.Payload, gotTable = splitHeaders(g.Payload)
			w.Payload, wantTable = splitHeaders(w.Payload)
			if !maps.Equal(gotTable, wantTable) {
				t.Fatalf("headers %q, want %q", gotTable, wantTable)
			}
		}
		if g.Kind != w.Kind || g.Channel != w.Channel || !bytes.Equal(g.Payload, w.Payload) {
			t.Fatalf("frame %d is\n%d %d %.200q, want\n%d %d %.200q", i, g.Kind, g.Channel, g.Payload, w.Kind,
				w.Channel, w.Payload)
		}
	}
}

// splitHeaders takes the headers out of a header frame. rest is the remaining payload, with the size of the headers.
// fields maps the name of each header to its type and value.
func splitHeaders(payload []byte) (rest []byte, fields map[string]string) {
	at := 14 // behind class, weight, size and flags
	if binary.BigEndian.Uint16(payload[12:])&wire.FlagContentType != 0 {
		at += 1 + int(payload[at])
	}
	size := int(binary.BigEndian.Uint32(payload[at:]))
	b := payload[at+4 : at+4+size]
	rest = append(append(rest, payload[:at+4]...), payload[at+4+size:]...)
	fields = map[string]string{}
	for len(b) > 0 {
		name := string(b[1 : 1+b[0]])
		b = b[1+b[0]:]
		n := map[byte]int{'l': 9, 'I': 5}[b[0]]
		if b[0] == 'S' {
			n = 5 + int(binary.BigEndian.Uint32(b[1:]))
		}
		fields[name] = string(b[:n])
		b = b[n:]
	}
	return rest, fields
}
