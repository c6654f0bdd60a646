package rabbit

import (
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// confirmCases lists sequences of frames that a broker may send for six messages. In want, c is confirmed, n nacked, r
// returned, x refused, d in doubt, a awaited.
var confirmCases = []struct {
	name string
	back bool // the broker returns the last message first
	says []scripted.Frame
	cut  bool // the connection ends after says
	want string
}{
	{name: "each by itself", says: scripted.Each(scripted.MethodAck, 1, 2, 3, 4, 5, 6), want: "cccccc"},
	{name: "in another order", says: scripted.Each(scripted.MethodAck, 6, 2, 1, 5, 3, 4), want: "cccccc"},
	{name: "all at once", says: scripted.UpTo(scripted.MethodAck, 6), want: "cccccc"},
	{name: "some at once", says: scripted.Join(scripted.UpTo(scripted.MethodAck, 2), scripted.UpTo(scripted.MethodAck, 5), scripted.Each(scripted.MethodAck, 6)), want: "cccccc"},
	{name: "all nacked", says: scripted.UpTo(scripted.MethodNack, 6), want: "nnnnnn"},
	{name: "one nacked before all are acked", says: scripted.Join(scripted.Each(scripted.MethodNack, 3), scripted.UpTo(scripted.MethodAck, 6)), want: "ccnccc"},
	{name: "one acked before all are nacked", says: scripted.Join(scripted.Each(scripted.MethodAck, 6), scripted.UpTo(scripted.MethodNack, 6)), want: "nnnnnc"},
	{name: "twice", says: scripted.Join(scripted.Each(scripted.MethodAck, 1, 1, 2, 2), scripted.UpTo(scripted.MethodNack, 2), scripted.UpTo(scripted.MethodAck, 6)), want: "cccccc"},
	{name: "of messages never sent", says: scripted.Join(scripted.Each(scripted.MethodNack, 0, 7, 1<<63), scripted.UpTo(scripted.MethodNack, 0, 8), scripted.UpTo(scripted.MethodAck, 6)),
		want: "cccccc"},
	{name: "one returned", back: true, says: scripted.Each(scripted.MethodAck, 1, 2, 3, 4, 5, 6), want: "cccccr"},
	{name: "one returned, all at once", back: true, says: scripted.UpTo(scripted.MethodAck, 6), want: "cccccr"},
	{name: "heartbeats between", says: scripted.Join(scripted.Heartbeats, scripted.UpTo(scripted.MethodAck, 4), scripted.Heartbeats, scripted.UpTo(scripted.MethodAck, 6)),
		want: "cccccc"},
	{name: "channel closed for one of them",
		says: scripted.Join(scripted.UpTo(scripted.MethodAck, 2), scripted.Each(scripted.MethodNack, 4), scripted.ChannelCloseFrames(406, "PRECONDITION_FAILED")),
		want: "ccxnxx"},
	{name: "exchange gone", says: scripted.Join(scripted.UpTo(scripted.MethodAck, 2), scripted.ChannelCloseFrames(404, "NOT_FOUND")), want: "ccdddd"},
	{name: "connection cut", says: scripted.Join(scripted.Each(scripted.MethodAck, 5), scripted.Each(scripted.MethodNack, 1)), cut: true, want: "ndddcd"},
	{name: "connection cut at once", cut: true, want: "dddddd"},
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
				s := scripted.Start(t, 4096, func(s *scripted.Broker) {
					s.Trickle = trickle
					s.OpenConfirmChannel()
					message := s.Messages(6)
					says := test.says
					if test.back {
						says = scripted.Join(scripted.ReturnFrames(message), says)
					}
					s.SendFrames(says)
					if !test.cut {
						s.Until(scripted.ConnectionClose)
					}
				})
				batch := rings("shop", 6)
				if got := spell(openAndDeliver(t.Context(), laneTo(t, s, 1000), batch, ampleLimits())); got != test.want {
					t.Errorf("outcomes %s, want %s", got, test.want)
				}
			})
		}
	}
}

// Delivery tags continue from batch to batch. Rings that cannot be encoded get none. A new channel starts at 1.
func TestDeliveryTagsCountPublishedMessages(t *testing.T) {
	t.Parallel()
	s := scripted.Start(t, 131072, func(s *scripted.Broker) {
		s.OpenConfirmChannel()
		s.Messages(5)
		s.SendFrames(scripted.UpTo(scripted.MethodAck, 5))
		s.Messages(5)
		s.SendFrames(scripted.Join(scripted.Each(scripted.MethodNack, 7, 3), scripted.UpTo(scripted.MethodAck, 10))) // 3 belongs to the first batch
		s.Until(scripted.ChannelClose)                                                                               // the lane replaces the channel after the nack
		s.SendMethod(s.Channel, scripted.ChannelCloseOk, nil)
		s.OpenConfirmChannel()
		s.Messages(1)
		s.SendFrames(scripted.ChannelCloseFrames(406, "PRECONDITION_FAILED"))
		s.OpenConfirmChannel()
		s.Messages(2)
		s.SendFrames(scripted.Join(scripted.Each(scripted.MethodNack, 12), scripted.UpTo(scripted.MethodAck, 2)))
		s.Until(scripted.ConnectionClose)
	})
	l := laneTo(t, s, 1000)
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
	s := scripted.Start(t, 4096, func(s *scripted.Broker) {
		s.OpenConfirmChannel()
		s.Messages(1)
		s.SendFrames(scripted.ChannelCloseFrames(406, "PRECONDITION_FAILED"))
		n := 0
		for replied := false; ; {
			switch f := s.Read(); {
			case f.Method() == scripted.ChannelCloseOk:
				replied = true
			case f.Kind == 0 || f.Method() == scripted.ConnectionClose:
				after <- n
				return
			case replied:
				n++
			}
		}
	})
	l := laneTo(t, s, 0)
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
	if n := rabbittest.ReceiveSoon(t, after); n != 0 {
		t.Errorf("%d frames after the end", n)
	}
}

// Frames that the library writes during a delivery do not split a message.
func TestMessagesAndOtherFramesStayWhole(t *testing.T) {
	t.Parallel()
	const messages, opens = 300, 200
	seen, delivering := make(chan int, 1), make(chan struct{})
	s := scripted.Start(t, 4096, func(s *scripted.Broker) {
		s.OpenConfirmChannel()
		n := 0
		for whole := 0; whole < messages; {
			f := s.Read()
			switch {
			case f.Method() == scripted.ChannelOpen:
				s.SendMethod(f.Channel, scripted.ChannelOpenOk, make([]byte, 4))
				n++
			case f.Method() == scripted.MethodPublish:
				s.Read()
				for range 10 { // frames of a body of 40000 bytes, more than one write holds
					if f := s.Read(); f.Kind != scripted.KindBody {
						s.TB.Errorf("a frame of type %d in a body", f.Kind)
						return
					}
				}
				if whole++; whole == 1 {
					delivering <- struct{}{} // most messages fit into no buffer, and wait for this broker to read on
				}
			}
		}
		seen <- n
		s.SendFrames(scripted.UpTo(scripted.MethodAck, messages))
		for f := s.Read(); f.Kind != 0 && f.Method() != scripted.ConnectionClose; f = s.Read() {
			if f.Method() == scripted.ChannelOpen {
				s.SendMethod(f.Channel, scripted.ChannelOpenOk, make([]byte, 4))
			}
		}
	})
	l := laneTo(t, s, DefaultConfig().GatherBytes)
	batch := rings("shop", messages)
	for i := range batch {
		batch[i].Payload = make([]byte, 40_000)
	}
	if err := l.Open(t.Context(), messages); err != nil {
		t.Fatal(err)
	}
	ended, link := make(chan struct{}), l.link
	go func() {
		defer close(ended)
		<-delivering
		for range opens {
			if _, err := link.PlainChannel(); err != nil {
				t.Error(err)
			}
		}
	}()
	wantAll(t, openAndDeliver(t.Context(), l, batch, ampleLimits()), clock.Confirmed)
	<-ended
	if n := rabbittest.ReceiveSoon(t, seen); n == 0 {
		t.Error("the library has written no frame during the delivery")
	}
}
