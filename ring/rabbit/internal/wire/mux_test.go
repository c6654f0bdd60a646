package wire

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// confirmSelectOkFrame is the broker's confirm.select-ok on channel 1.
var confirmSelectOkFrame = scripted.FrameOf(scripted.KindMethod, 1, []byte{0, 85, 0, 11})

// For every stream, read in pieces of any size: the mux removes confirms, adds only heartbeats, and changes no other
// frame.
func TestMuxRemovesConfirmsOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stream := []scripted.Frame{confirmSelectOkFrame}
		others := slices.Clone(stream)
		for range rapid.IntRange(0, 30).Draw(t, "frames") {
			f, ours := drawFrame(t)
			stream = append(stream, f)
			if !ours {
				others = append(others, f)
			}
		}
		pieces := &chunks{t: t, left: scripted.Encode(stream...)}
		m := newMux(&recorder{})
		m.reader.Reset(pieces)
		m.confirms.Expect(1, 100)
		var got []byte
		p := make([]byte, rapid.SampledFrom([]int{1, 3, 7, 8, 4096}).Draw(t, "buffer"))
		for {
			n, err := m.Read(p)
			got = append(got, p[:n]...)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil || n == 0 {
				t.Fatalf("read %d bytes, %v", n, err)
			}
		}
		got, want := withoutHeartbeats(t, got), scripted.Encode(others...)
		if !bytes.Equal(got, want) {
			t.Fatalf("the library reads\n%x, want\n%x", got, want)
		}
		for i, a := range confirmsAfter(stream) {
			if m.confirms.Get(uint64(i+1)) != a {
				t.Fatalf("message %d: %d, want %d", i+1, m.confirms.Get(uint64(i+1)), a)
			}
		}
	})
}

func drawFrame(t *rapid.T) (f scripted.Frame, ours bool) {
	tag := rapid.Uint64Range(0, 101).Draw(t, "tag")
	multiple := rapid.Bool().Draw(t, "multiple")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return scripted.ConfirmFrame(scripted.MethodAck, tag, multiple), true
	case 1:
		return scripted.ConfirmFrame(scripted.MethodNack, tag, multiple), true
	case 2: // a confirm on another channel
		f = scripted.ConfirmFrame(scripted.MethodAck, tag, multiple)
		f.Channel = 2
		return f, false
	case 3: // another method with the size of a confirm
		return scripted.FrameOf(scripted.KindMethod, 1, append([]byte{0, 60, 0, 60}, make([]byte, 9)...)), false
	case 4: // a body with the bytes of a confirm
		return scripted.FrameOf(scripted.KindBody, 1, scripted.ConfirmFrame(scripted.MethodAck, tag, multiple).Payload), false
	default:
		return scripted.FrameOf(scripted.KindMethod, 1, append([]byte{0, 60, 0, 80}, make([]byte, rapid.IntRange(10, 100).Draw(t, "size"))...)), false
	}
}

// confirmsAfter returns the confirms of 100 messages after the stream. It is a slow and simple model of confirms.
func confirmsAfter(stream []scripted.Frame) []Confirm {
	known := make([]Confirm, 100)
	for _, f := range stream {
		if f.Channel != 1 || len(f.Payload) != confirmSize || f.Method() != scripted.MethodAck && f.Method() != scripted.MethodNack {
			continue
		}
		a := map[uint32]Confirm{scripted.MethodAck: Acked, scripted.MethodNack: Nacked}[f.Method()]
		tag, multiple := int(f.Payload[11]), f.Payload[12] == 1
		if tag > len(known) {
			continue
		}
		for i := range known {
			if known[i] == Unconfirmed && (i+1 == tag || multiple && i+1 < tag) {
				known[i] = a
			}
		}
	}
	return known
}

// withoutHeartbeats removes the heartbeats that the mux adds.
func withoutHeartbeats(t *rapid.T, b []byte) (rest []byte) {
	for len(b) > 0 {
		n := scripted.FrameRest + int(b[5])<<8 + int(b[6])
		if n > len(b) {
			t.Fatalf("an incomplete frame: %x", b)
		}
		if !bytes.Equal(b[:n], heartbeat[:]) {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	return rest
}

// chunks is a reader that returns left in pieces of random sizes.
type chunks struct {
	t    *rapid.T
	left []byte
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.left[:rapid.IntRange(1, len(c.left)).Draw(c.t, "piece")])
	c.left = c.left[n:]
	return n, nil
}

// While a broker sends confirms, it sends no heartbeats. The mux adds them, so that the library does not take the
// broker for dead.
func TestMuxReplacesConfirmsByHeartbeats(t *testing.T) {
	t.Parallel()
	m := newMux(&recorder{})
	m.reader.Reset(bytes.NewReader(scripted.Encode(scripted.Join([]scripted.Frame{confirmSelectOkFrame}, scripted.Each(scripted.MethodAck, 1),
		scripted.UpTo(scripted.MethodAck, 5))...)))
	got, err := io.ReadAll(m)
	if want := scripted.Join([]scripted.Frame{confirmSelectOkFrame}, scripted.Heartbeats); err != nil || !bytes.Equal(got, scripted.Encode(want...)) {
		t.Errorf("the library reads %x, %v", got, err)
	}
}

// recorder is a connection that keeps the written bytes.
type recorder struct {
	net.Conn
	bytes.Buffer
}

func (r *recorder) Read(p []byte) (int, error)  { return r.Buffer.Read(p) }
func (r *recorder) Write(p []byte) (int, error) { return r.Buffer.Write(p) }
