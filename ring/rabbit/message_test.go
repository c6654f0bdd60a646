package rabbit

import (
	"bytes"
	"encoding/binary"
	"maps"
	"math"
	"net"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// Every message equals the library's encoding byte for byte, except for the order of its headers.
func TestMessagesEqualTheLibrarysByteForByte(t *testing.T) {
	t.Parallel()
	for _, frameMax := range []uint32{4096, 131072, 0} {
		frames := make(chan []frame, 1)
		s := script(t, frameMax, func(s *scriptedBroker) {
			s.sendMethod(s.until(channelOpen).channel, channelOpenOk, make([]byte, 4))
			for m := s.messages(1); m != nil; m = s.messages(1) {
				frames <- m
			}
		})
		conn, err := amqp.DialConfig(s.url(), amqp.Config{FrameSize: amqp.FrameSizeUnlimited})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.listener.Close(); _ = s.conn.Close(); _ = conn.Close() })
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			r := drawRing(t, conn.Config.FrameSize)
			e := newMessageEncoder("clock.test",
				rapid.SampledFrom([]Headers{FullHeaders, LeanHeaders}).Draw(t, "headers"))
			if err := ch.Publish("clock.test", r.Application, true, false, publishing(&r, "clock.test.answers", e.headers)); err != nil {
				t.Fatal(err)
			}
			want := <-frames
			compareFrames(t, published(t, e, &r, conn.Config.FrameSize), want)
		})
	}
}

// drawRing draws a ring. Its body ends near the end of a frame, near the end of the buffer, or anywhere.
func drawRing(t *rapid.T, frameMax int) clock.Ring {
	room := max(frameMax-frameOverhead, 0)
	sizes := rapid.OneOf(
		rapid.SampledFrom([]int{0, 1, max(room-1, 0), room, room + 1, max(2*room-1, 0), 2 * room, 3*room + 1,
			muxBuffer - 7, muxBuffer}),
		rapid.IntRange(0, 300),
	)
	number := rapid.OneOf(rapid.Int64Range(1, 1000), rapid.SampledFrom([]int64{1<<31 - 1, math.MaxInt64}))
	return clock.Ring{
		AlarmID:    number.Draw(t, "id"),
		Generation: number.Draw(t, "generation"),
		Key: clock.Key{
			Application: rapid.StringMatching(`[A-Za-z0-9][A-Za-z0-9._-]{0,63}`).Draw(t, "application"),
			BusinessID:  rapid.StringN(1, -1, maxShortString).Draw(t, "business id"),
		},
		RingNo:      rapid.IntRange(1, 1<<31-1).Draw(t, "ring no"),
		Before:      clock.RingRow{RetryTimes: rapid.IntRange(0, 1<<31-1).Draw(t, "retry times")},
		RingAt:      clock.Instant(rapid.Int64Range(-1500, 1<<48).Draw(t, "ring at")),
		RungAt:      clock.Instant(rapid.Int64Range(0, 1<<48).Draw(t, "rung at")),
		ClaimID:     rapid.String().Draw(t, "claim id"),
		Payload:     bytes.Repeat([]byte{rapid.Byte().Draw(t, "payload")}, sizes.Draw(t, "size")),
		ContentType: rapid.StringN(0, -1, maxShortString).Draw(t, "content type"),
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

// recorder is a connection that keeps the written bytes.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)  { return r.Buffer.Read(p) }
func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }

// published returns the frames that the encoder and the mux write for r.
func published(t *rapid.T, e *messageEncoder, r *clock.Ring, frameMax int) []frame {
	written := &recorder{}
	m := newMux(written)
	m.setMaxFrame(frameMax)
	head, err := e.encode(r, "clock.test", r.Application, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.publish(&Channel{Channel: &amqp.Channel{}, ID: 1}, head, r.Payload); err != nil {
		t.Fatal(err)
	}
	var frames []frame
	for b := written.Bytes(); len(b) > 0; {
		n := frameOverhead + int(binary.BigEndian.Uint32(b[3:]))
		frames = append(frames, frame{b[0], binary.BigEndian.Uint16(b[1:]), b[frameHeadSize : n-1]})
		if b[n-1] != frameEnd {
			t.Fatalf("frame %d has no end", len(frames))
		}
		b = b[n:]
	}
	return frames
}

func compareFrames(t *rapid.T, got, want []frame) {
	if len(got) != len(want) {
		t.Fatalf("%d frames, want %d", len(got), len(want))
	}
	for i := range got {
		g, w := got[i], want[i]
		if g.kind == frameHeader && w.kind == frameHeader {
			var gotTable, wantTable map[string]string
			g.payload, gotTable = splitHeaders(g.payload)
			w.payload, wantTable = splitHeaders(w.payload)
			if !maps.Equal(gotTable, wantTable) {
				t.Fatalf("headers %q, want %q", gotTable, wantTable)
			}
		}
		if g.kind != w.kind || g.channel != w.channel || !bytes.Equal(g.payload, w.payload) {
			t.Fatalf("frame %d is\n%d %d %.200q, want\n%d %d %.200q", i, g.kind, g.channel, g.payload, w.kind,
				w.channel, w.payload)
		}
	}
}

// splitHeaders takes the headers out of a header frame. rest is the remaining payload, with the size of the headers.
// fields maps the name of each header to its type and value.
func splitHeaders(payload []byte) (rest []byte, fields map[string]string) {
	at := 14 // behind class, weight, size and flags
	if binary.BigEndian.Uint16(payload[12:])&flagContentType != 0 {
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
