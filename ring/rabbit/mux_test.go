package rabbit

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// confirmCases lists sequences of frames that a broker may send for six messages. In want, c is confirmed, n nacked, r
// returned, x refused, d in doubt, a awaited.
var confirmCases = []struct {
	name string
	back bool // the broker returns the last message first
	says []frame
	cut  bool // the connection ends after says
	want string
}{
	{name: "each by itself", says: each(basicAck, 1, 2, 3, 4, 5, 6), want: "cccccc"},
	{name: "in another order", says: each(basicAck, 6, 2, 1, 5, 3, 4), want: "cccccc"},
	{name: "all at once", says: upTo(basicAck, 6), want: "cccccc"},
	{name: "some at once", says: join(upTo(basicAck, 2), upTo(basicAck, 5), each(basicAck, 6)), want: "cccccc"},
	{name: "all nacked", says: upTo(basicNack, 6), want: "nnnnnn"},
	{name: "one nacked before all are acked", says: join(each(basicNack, 3), upTo(basicAck, 6)), want: "ccnccc"},
	{name: "one acked before all are nacked", says: join(each(basicAck, 6), upTo(basicNack, 6)), want: "nnnnnc"},
	{name: "twice", says: join(each(basicAck, 1, 1, 2, 2), upTo(basicNack, 2), upTo(basicAck, 6)), want: "cccccc"},
	{name: "of messages never sent", says: join(each(basicNack, 0, 7, 1<<63), upTo(basicNack, 0, 8), upTo(basicAck, 6)),
		want: "cccccc"},
	{name: "one returned", back: true, says: each(basicAck, 1, 2, 3, 4, 5, 6), want: "cccccr"},
	{name: "one returned, all at once", back: true, says: upTo(basicAck, 6), want: "cccccr"},
	{name: "heartbeats between", says: join(heartbeatFrames, upTo(basicAck, 4), heartbeatFrames, upTo(basicAck, 6)),
		want: "cccccc"},
	{name: "channel closed for one of them",
		says: join(upTo(basicAck, 2), each(basicNack, 4), channelCloseFrames(406, "PRECONDITION_FAILED")),
		want: "ccxnxx"},
	{name: "exchange gone", says: join(upTo(basicAck, 2), channelCloseFrames(404, "NOT_FOUND")), want: "ccdddd"},
	{name: "connection cut", says: join(each(basicAck, 5), each(basicNack, 1)), cut: true, want: "ndddcd"},
	{name: "connection cut at once", cut: true, want: "dddddd"},
}

var heartbeatFrames = []frame{{kind: frameHeartbeat}}

func each(method uint32, tags ...uint64) (frames []frame) {
	for _, tag := range tags {
		frames = append(frames, confirmFrame(method, tag, false))
	}
	return frames
}

func upTo(method uint32, tags ...uint64) (frames []frame) {
	for _, tag := range tags {
		frames = append(frames, confirmFrame(method, tag, true))
	}
	return frames
}

func join(parts ...[]frame) (frames []frame) {
	for _, p := range parts {
		frames = append(frames, p...)
	}
	return frames
}

var outcomeLetters = map[clock.OutcomeKind]byte{
	clock.Confirmed: 'c', clock.Nacked: 'n', clock.Returned: 'r', clock.Refused: 'x', clock.Doubtful: 'd',
	clock.Unsent:  'u',
	clock.Awaited: 'a',
}

func spell(outcomes []clock.Outcome) string {
	var b []byte
	for _, o := range outcomes {
		b = append(b, outcomeLetters[o.Kind])
	}
	return string(b)
}

func TestConfirmsDecideOutcomesOfTheirOwnMessages(t *testing.T) {
	t.Parallel()
	for _, test := range confirmCases {
		for _, trickle := range []bool{false, true} { // the broker writes all bytes at once, or each byte alone
			t.Run(test.name, func(t *testing.T) {
				s := script(t, 4096, func(s *scriptedBroker) {
					s.trickle = trickle
					s.openConfirmChannel()
					message := s.messages(6)
					says := test.says
					if test.back {
						says = join(returnFrames(message), says)
					}
					s.sendFrames(says)
					if !test.cut {
						s.until(connectionClose)
					}
				})
				batch := rings("shop", 6)
				if got := spell(openAndDeliver(t.Context(), s.lane(1000), batch, ampleLimits())); got != test.want {
					t.Errorf("outcomes %s, want %s", got, test.want)
				}
			})
		}
	}
}

// Delivery tags continue from batch to batch. Rings that cannot be encoded get none. A new channel starts at 1.
func TestDeliveryTagsCountPublishedMessages(t *testing.T) {
	t.Parallel()
	s := script(t, 131072, func(s *scriptedBroker) {
		s.openConfirmChannel()
		s.messages(5)
		s.sendFrames(upTo(basicAck, 5))
		s.messages(5)
		s.sendFrames(join(each(basicNack, 7, 3), upTo(basicAck, 10))) // 3 belongs to the first batch
		s.until(channelClose)                                         // the lane replaces the channel after the nack
		s.sendMethod(s.channel, channelCloseOk, nil)
		s.openConfirmChannel()
		s.messages(1)
		s.sendFrames(channelCloseFrames(406, "PRECONDITION_FAILED"))
		s.openConfirmChannel()
		s.messages(2)
		s.sendFrames(join(each(basicNack, 12), upTo(basicAck, 2)))
		s.until(connectionClose)
	})
	l := s.lane(1000)
	batch := rings("shop", 6)
	batch[2].ContentType = string(make([]byte, 256))
	for _, want := range []string{"ccxccc", "cnxccc"} {
		if got := spell(openAndDeliver(t.Context(), l, batch, ampleLimits())); got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
	}
	if got := spell(openAndDeliver(t.Context(), l, batch[:1], ampleLimits())); got != "x" {
		t.Errorf("outcome %s when the channel is closed", got)
	}
	if got := spell(openAndDeliver(t.Context(), l, batch[:2], ampleLimits())); got != "cc" {
		t.Errorf("outcomes %s on the new channel", got)
	}
}

// The broker closes the channel in the middle of a batch. Rings that were not written by then are unsent. After the
// reply to channel.close no frame follows on that channel: the broker would close the connection for it.
func TestNothingIsWrittenOnAClosedChannel(t *testing.T) {
	t.Parallel()
	after := make(chan int, 1)
	s := script(t, 4096, func(s *scriptedBroker) {
		s.openConfirmChannel()
		s.messages(1)
		s.sendFrames(channelCloseFrames(406, "PRECONDITION_FAILED"))
		n := 0
		for replied := false; ; {
			switch f := s.read(); {
			case f.method() == channelCloseOk:
				replied = true
			case f.kind == 0 || f.method() == connectionClose:
				after <- n
				return
			case replied:
				n++
			}
		}
	})
	l := s.lane(0)
	batch := rings("shop", 20_000)
	for i := range batch {
		batch[i].Payload = make([]byte, 5000)
	}
	n := count(openAndDeliver(t.Context(), l, batch, ampleLimits()))
	if n[clock.Unsent] == 0 || n[clock.Refused] == 0 || n[clock.Unsent]+n[clock.Refused] != len(batch) {
		t.Errorf("outcomes %v", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := receiveSoon(t, after); n != 0 {
		t.Errorf("%d frames after the end", n)
	}
}

// Frames that the library writes during a delivery do not split a message.
func TestMessagesAndOtherFramesStayWhole(t *testing.T) {
	t.Parallel()
	const messages, beats = 300, 200
	seen := make(chan int, 1)
	s := script(t, 4096, func(s *scriptedBroker) {
		s.openConfirmChannel()
		n := 0
		for whole := 0; whole < messages; {
			f := s.read()
			switch {
			case f.kind == frameHeartbeat:
				n++
			case f.method() == basicPublish:
				s.read()
				for range 10 { // frames of a body of 40000 bytes, more than one write holds
					if f := s.read(); f.kind != frameBody {
						s.tb.Errorf("a frame of type %d in a body", f.kind)
						return
					}
				}
				whole++
			}
		}
		seen <- n
		s.sendFrames(upTo(basicAck, messages))
		s.until(connectionClose)
	})
	l := s.lane(DefaultConfig().GatherBytes)
	batch := rings("shop", messages)
	for i := range batch {
		batch[i].Payload = make([]byte, 40_000)
	}
	if err := l.Open(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range beats {
			if _, err := l.link.mux.Write(heartbeat[:]); err != nil {
				t.Error(err)
			}
		}
	}()
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	<-ended
	if n := receiveSoon(t, seen); n > beats {
		t.Errorf("%d heartbeats, %d were sent", n, beats)
	}
}

// confirmSelectOkFrame is the broker's confirm.select-ok on channel 1.
var confirmSelectOkFrame = frame{frameMethod, 1, []byte{0, 85, 0, 11}}

// For every stream, read in pieces of any size: the mux removes confirms, adds only heartbeats, and changes no other
// frame.
func TestMuxRemovesConfirmsOnly(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		stream := []frame{confirmSelectOkFrame}
		others := slices.Clone(stream)
		for range rapid.IntRange(0, 30).Draw(t, "frames") {
			f, ours := drawFrame(t)
			stream = append(stream, f)
			if !ours {
				others = append(others, f)
			}
		}
		pieces := &chunks{t: t, left: encode(stream...)}
		m := newMux(&recorder{})
		m.reader.Reset(pieces)
		m.confirms.expect(1, 100)
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
		got, want := withoutHeartbeats(t, got), encode(others...)
		if !bytes.Equal(got, want) {
			t.Fatalf("the library reads\n%x, want\n%x", got, want)
		}
		for i, a := range confirmsAfter(stream) {
			if m.confirms.get(uint64(i+1)) != a {
				t.Fatalf("message %d: %d, want %d", i+1, m.confirms.get(uint64(i+1)), a)
			}
		}
	})
}

func drawFrame(t *rapid.T) (f frame, ours bool) {
	tag := rapid.Uint64Range(0, 101).Draw(t, "tag")
	multiple := rapid.Bool().Draw(t, "multiple")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return confirmFrame(basicAck, tag, multiple), true
	case 1:
		return confirmFrame(basicNack, tag, multiple), true
	case 2: // a confirm on another channel
		f = confirmFrame(basicAck, tag, multiple)
		f.channel = 2
		return f, false
	case 3: // another method with the size of a confirm
		return frame{frameMethod, 1, append([]byte{0, 60, 0, 60}, make([]byte, 9)...)}, false
	case 4: // a body with the bytes of a confirm
		return frame{frameBody, 1, confirmFrame(basicAck, tag, multiple).payload}, false
	default:
		return frame{frameMethod, 1, append([]byte{0, 60, 0, 80}, make([]byte, rapid.IntRange(10, 100).Draw(t, "size"))...)}, false
	}
}

// confirmsAfter returns the confirms of 100 messages after the stream. It is a slow and simple model of confirms.
func confirmsAfter(stream []frame) []confirm {
	known := make([]confirm, 100)
	for _, f := range stream {
		if f.channel != 1 || len(f.payload) != confirmSize || f.method() != basicAck && f.method() != basicNack {
			continue
		}
		a := map[uint32]confirm{basicAck: acked, basicNack: nacked}[f.method()]
		tag, multiple := int(f.payload[11]), f.payload[12] == 1
		if tag > len(known) {
			continue
		}
		for i := range known {
			if known[i] == unconfirmed && (i+1 == tag || multiple && i+1 < tag) {
				known[i] = a
			}
		}
	}
	return known
}

// withoutHeartbeats removes the heartbeats that the mux adds.
func withoutHeartbeats(t *rapid.T, b []byte) (rest []byte) {
	for len(b) > 0 {
		n := frameOverhead + int(b[5])<<8 + int(b[6])
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
	m.reader.Reset(bytes.NewReader(encode(join([]frame{confirmSelectOkFrame}, each(basicAck, 1),
		upTo(basicAck, 5))...)))
	got, err := io.ReadAll(m)
	if want := join([]frame{confirmSelectOkFrame}, heartbeatFrames); err != nil || !bytes.Equal(got, encode(want...)) {
		t.Errorf("the library reads %x, %v", got, err)
	}
}
