package rabbit

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// What a broker may say of six messages. Of the outcomes c is confirmed, n nacked, r returned, x refused, d in doubt.
var answered = []struct {
	name string
	back bool // the last message comes back before anything else
	says []frame
	cut  bool // then the connection ends
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
	{name: "of messages never sent", says: join(each(basicNack, 0, 7, 1<<63), upTo(basicNack, 0, 8), upTo(basicAck, 6)), want: "cccccc"},
	{name: "one returned", back: true, says: each(basicAck, 1, 2, 3, 4, 5, 6), want: "cccccr"},
	{name: "one returned, all at once", back: true, says: upTo(basicAck, 6), want: "cccccr"},
	{name: "heartbeats between", says: join(beat, upTo(basicAck, 4), beat, upTo(basicAck, 6)), want: "cccccc"},
	{name: "channel closed for one of them", says: join(upTo(basicAck, 2), each(basicNack, 4), closing(406, "PRECONDITION_FAILED")), want: "ccxnxx"},
	{name: "exchange gone", says: join(upTo(basicAck, 2), closing(404, "NOT_FOUND")), want: "ccdddd"},
	{name: "connection cut", says: join(each(basicAck, 5), each(basicNack, 1)), cut: true, want: "ndddcd"},
	{name: "connection cut at once", cut: true, want: "dddddd"},
}

var beat = []frame{{kind: frameHeartbeat}}

func each(method uint32, tags ...uint64) (frames []frame) {
	for _, tag := range tags {
		frames = append(frames, answerTo(method, tag, false))
	}
	return frames
}

func upTo(method uint32, tags ...uint64) (frames []frame) {
	for _, tag := range tags {
		frames = append(frames, answerTo(method, tag, true))
	}
	return frames
}

func join(parts ...[]frame) (frames []frame) {
	for _, p := range parts {
		frames = append(frames, p...)
	}
	return frames
}

var letters = map[clock.OutcomeKind]byte{
	clock.Confirmed: 'c', clock.Nacked: 'n', clock.Returned: 'r', clock.Refused: 'x', clock.Doubtful: 'd', clock.Unsent: 'u',
}

func spell(outcomes []clock.Outcome) string {
	var b []byte
	for _, o := range outcomes {
		b = append(b, letters[o.Kind])
	}
	return string(b)
}

func TestAnswersAreOfTheirMessages(t *testing.T) {
	for _, test := range answered {
		for _, trickle := range []bool{false, true} { // all at once, or byte by byte
			t.Run(test.name, func(t *testing.T) {
				s := script(t, 4096, func(s *scripted) {
					s.trickle = trickle
					s.confirming()
					message := s.messages(6)
					says := test.says
					if test.back {
						says = join(returned(message), says)
					}
					s.say(says)
					if !test.cut {
						s.until(connectionClose)
					}
				})
				batch := rings("shop", 6)
				if got := spell(s.lane(1000).Deliver(t.Context(), batch, usual())); got != test.want {
					t.Errorf("outcomes %s, want %s", got, test.want)
				}
			})
		}
	}
}

// Delivery tags count on from batch to batch, and past rings that cannot be encoded; a new channel begins anew.
func TestDeliveryTagsCountPublishedMessages(t *testing.T) {
	s := script(t, 131072, func(s *scripted) {
		s.confirming()
		s.messages(5)
		s.say(upTo(basicAck, 5))
		s.messages(5)
		s.say(join(each(basicNack, 7, 3), upTo(basicAck, 10))) // 3 is of the first batch
		s.messages(1)
		s.say(closing(406, "PRECONDITION_FAILED"))
		s.confirming()
		s.messages(2)
		s.say(join(each(basicNack, 12), upTo(basicAck, 2)))
		s.until(connectionClose)
	})
	l := s.lane(1000)
	batch := rings("shop", 6)
	batch[2].ContentType = string(make([]byte, 256))
	for _, want := range []string{"ccxccc", "cnxccc"} {
		if got := spell(l.Deliver(t.Context(), batch, usual())); got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
	}
	if got := spell(l.Deliver(t.Context(), batch[:1], usual())); got != "x" {
		t.Errorf("outcome %s when the channel is closed", got)
	}
	if got := spell(l.Deliver(t.Context(), batch[:2], usual())); got != "cc" {
		t.Errorf("outcomes %s on the new channel", got)
	}
}

// The broker closes the channel in the middle of a batch: what was not written by then is unsent, and nothing is written on
// that channel after the answer, for which the broker would close the connection.
func TestNothingFollowsTheEndOfAChannel(t *testing.T) {
	after := make(chan int, 1)
	s := script(t, 4096, func(s *scripted) {
		s.confirming()
		s.messages(1)
		s.say(closing(406, "PRECONDITION_FAILED"))
		n := 0
		for answered := false; ; {
			switch f := s.read(); {
			case f.method() == channelCloseOk:
				answered = true
			case f.kind == 0 || f.method() == connectionClose:
				after <- n
				return
			case answered:
				n++
			}
		}
	})
	l := s.lane(0)
	batch := rings("shop", 20_000)
	for i := range batch {
		batch[i].Payload = make([]byte, 5000)
	}
	n := count(l.Deliver(t.Context(), batch, within(5*time.Second, 10*time.Second)))
	if n[clock.Unsent] == 0 || n[clock.Refused] == 0 || n[clock.Unsent]+n[clock.Refused] != len(batch) {
		t.Errorf("outcomes %v", n)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if n := receiving(t, after); n != 0 {
		t.Errorf("%d frames after the end", n)
	}
}

// Frames of the library that fall between messages tear none of them.
func TestMessagesAndOtherFramesStayWhole(t *testing.T) {
	const messages, beats = 300, 200
	seen := make(chan int, 1)
	s := script(t, 4096, func(s *scripted) {
		s.confirming()
		n := 0
		for whole := 0; whole < messages; {
			f := s.read()
			switch {
			case f.kind == frameHeartbeat:
				n++
			case f.method() == basicPublish:
				s.read()
				for range 10 { // bodies of 40000 bytes, more than is written at once
					if f := s.read(); f.kind != frameBody {
						s.tb.Errorf("a frame of type %d in a body", f.kind)
						return
					}
				}
				whole++
			}
		}
		seen <- n
		s.say(upTo(basicAck, messages))
		s.until(connectionClose)
	})
	l := s.lane(DefaultConfig().GatherBytes)
	batch := rings("shop", messages)
	for i := range batch {
		batch[i].Payload = make([]byte, 40_000)
	}
	if err := l.ready(t.Context(), messages); err != nil {
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
	all(t, l.Deliver(t.Context(), batch, within(5*time.Second, 10*time.Second)), clock.Confirmed)
	<-ended
	if n := receiving(t, seen); n > beats {
		t.Errorf("%d heartbeats, %d were sent", n, beats)
	}
}

// selected puts channel 1 into confirm mode.
var selected = frame{frameMethod, 1, []byte{0, 85, 0, 11}}

// Whatever the stream, and however it comes: the library reads all other frames as they are, with only heartbeats in between.
func TestMuxTakesOutAnswersOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		stream := []frame{selected}
		others := slices.Clone(stream)
		for range rapid.IntRange(0, 30).Draw(t, "frames") {
			f, ours := drawFrame(t)
			stream = append(stream, f)
			if !ours {
				others = append(others, f)
			}
		}
		in := &chunks{t: t, left: encode(stream...)}
		m := newMux(&recorder{})
		m.in.Reset(in)
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
		for i, a := range model(stream) {
			if m.confirms.of(uint64(i+1)) != a {
				t.Fatalf("message %d: %d, want %d", i+1, m.confirms.of(uint64(i+1)), a)
			}
		}
	})
}

func drawFrame(t *rapid.T) (f frame, ours bool) {
	tag := rapid.Uint64Range(0, 101).Draw(t, "tag")
	multiple := rapid.Bool().Draw(t, "multiple")
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return answerTo(basicAck, tag, multiple), true
	case 1:
		return answerTo(basicNack, tag, multiple), true
	case 2: // an answer, but of another channel
		f = answerTo(basicAck, tag, multiple)
		f.channel = 2
		return f, false
	case 3: // of the same size, but no answer
		return frame{frameMethod, 1, append([]byte{0, 60, 0, 60}, make([]byte, 9)...)}, false
	case 4: // a body that looks like one
		return frame{frameBody, 1, answerTo(basicAck, tag, multiple).payload}, false
	default:
		return frame{frameMethod, 1, append([]byte{0, 60, 0, 80}, make([]byte, rapid.IntRange(10, 100).Draw(t, "size"))...)}, false
	}
}

// model is what is known of 100 messages after the stream, found in the slow way.
func model(stream []frame) []answer {
	known := make([]answer, 100)
	for _, f := range stream {
		if f.channel != 1 || len(f.payload) != answerSize || f.method() != basicAck && f.method() != basicNack {
			continue
		}
		a := map[uint32]answer{basicAck: acked, basicNack: nacked}[f.method()]
		tag, multiple := int(f.payload[11]), f.payload[12] == 1
		if tag > len(known) {
			continue
		}
		for i := range known {
			if known[i] == unanswered && (i+1 == tag || multiple && i+1 < tag) {
				known[i] = a
			}
		}
	}
	return known
}

// withoutHeartbeats takes out what the mux puts in.
func withoutHeartbeats(t *rapid.T, b []byte) (rest []byte) {
	for len(b) > 0 {
		n := frameOverhead + int(b[5])<<8 + int(b[6])
		if n > len(b) {
			t.Fatalf("a part of a frame: %x", b)
		}
		if !bytes.Equal(b[:n], heartbeat[:]) {
			rest = append(rest, b[:n]...)
		}
		b = b[n:]
	}
	return rest
}

// chunks hands out what is left in pieces of any size.
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

// A broker that answers is alive, although the library sees none of the answers: it sends no heartbeats meanwhile.
func TestAnswersAreHeartbeatsToTheLibrary(t *testing.T) {
	m := newMux(&recorder{})
	m.in.Reset(bytes.NewReader(encode(join([]frame{selected}, each(basicAck, 1), upTo(basicAck, 5))...)))
	got, err := io.ReadAll(m)
	if want := join([]frame{selected}, beat); err != nil || !bytes.Equal(got, encode(want...)) {
		t.Errorf("the library reads %x, %v", got, err)
	}
}
