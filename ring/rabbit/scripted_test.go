package rabbit

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// More methods of the protocol, as class and method.
const (
	connectionStart  = 10<<16 | 10
	connectionTune   = 10<<16 | 30
	connectionOpen   = 10<<16 | 40
	connectionOpenOk = 10<<16 | 41
	connectionClose  = 10<<16 | 50
	channelOpen      = 20<<16 | 10
	channelOpenOk    = 20<<16 | 11
	channelClose     = 20<<16 | 40
	channelCloseOk   = 20<<16 | 41
	basicReturn      = classBasic<<16 | 50
	confirmSelect    = 85<<16 | 10
)

// scripted is a broker for one connection that says what a test wants it to say.
type scripted struct {
	tb       testing.TB
	frameMax uint32
	trickle  bool // write each byte by itself
	listener net.Listener
	conn     net.Conn
	in       *bufio.Reader
	channel  uint16 // the one in confirm mode
	wait     sync.WaitGroup
}

// frame is one frame as it was read.
type frame struct {
	kind    byte
	channel uint16
	payload []byte
}

func (f frame) method() uint32 {
	if f.kind != frameMethod {
		return 0
	}
	return binary.BigEndian.Uint32(f.payload)
}

// script starts a broker that shakes hands and then plays.
func script(tb testing.TB, frameMax uint32, play func(s *scripted)) *scripted {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &scripted{tb: tb, frameMax: frameMax, listener: listener}
	s.wait.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.conn = conn
		defer s.conn.Close()
		s.in = bufio.NewReader(s.conn)
		s.shake()
		play(s)
	})
	tb.Cleanup(func() { _ = listener.Close(); s.wait.Wait() })
	return s
}

func (s *scripted) url() string { return "amqp://" + s.listener.Addr().String() + "/" }

// lane returns a lane to it.
func (s *scripted) lane(gather int) *lane {
	s.tb.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.GatherBytes = s.url(), gather
	session, err := New(cfg, Deps{})
	if err != nil {
		s.tb.Fatal(err)
	}
	session.health.up(0)
	return laneOf(s.tb, session)
}

func (s *scripted) shake() {
	if _, err := io.ReadFull(s.in, make([]byte, 8)); err != nil { // the protocol's name
		s.tb.Error(err)
		return
	}
	start := binary.BigEndian.AppendUint32([]byte{0, 9}, 0) // no properties
	start = append(binary.BigEndian.AppendUint32(start, 5), "PLAIN"...)
	s.send(0, connectionStart, append(binary.BigEndian.AppendUint32(start, 5), "en_US"...))
	s.read()
	tune := binary.BigEndian.AppendUint32([]byte{0, 0}, s.frameMax)
	s.send(0, connectionTune, append(tune, 0, 0))
	s.until(connectionOpen)
	s.send(0, connectionOpenOk, []byte{0})
}

// confirming answers the opening of a channel in confirm mode.
func (s *scripted) confirming() {
	s.channel = s.until(channelOpen).channel
	s.send(s.channel, channelOpenOk, make([]byte, 4))
	s.until(confirmSelect)
	s.send(s.channel, confirmSelectOk, nil)
}

// read returns the next frame, a zero one at the end.
func (s *scripted) read() frame {
	head := make([]byte, frameHeadSize)
	if _, err := io.ReadFull(s.in, head); err != nil {
		return frame{}
	}
	f := frame{head[0], binary.BigEndian.Uint16(head[1:]), make([]byte, binary.BigEndian.Uint32(head[3:]))}
	if s.frameMax > 0 && len(f.payload)+frameOverhead > int(s.frameMax) {
		s.tb.Errorf("a frame of %d bytes, agreed were %d", len(f.payload)+frameOverhead, s.frameMax)
	}
	_, _ = io.ReadFull(s.in, f.payload)
	if end, err := s.in.ReadByte(); err == nil && end != frameEnd {
		s.tb.Errorf("a frame ends with %#x", end)
	}
	return f
}

// until reads until the method comes, or the end.
func (s *scripted) until(method uint32) frame {
	for {
		if f := s.read(); f.kind == 0 || f.method() == method {
			return f
		}
	}
}

// messages reads n messages and returns the frames of the last.
func (s *scripted) messages(n int) (frames []frame) {
	for ; n > 0; n-- {
		frames = []frame{s.until(basicPublish), s.read()}
		if len(frames[1].payload) < 12 {
			return nil
		}
		for left := binary.BigEndian.Uint64(frames[1].payload[4:]); left > 0; {
			f := s.read()
			if f.kind != frameBody {
				s.tb.Errorf("a frame of type %d between those of a body", f.kind)
				return nil
			}
			left -= uint64(len(f.payload))
			frames = append(frames, f)
		}
	}
	return frames
}

// send sends a method.
func (s *scripted) send(channel uint16, method uint32, args []byte) {
	s.write(encode(frame{frameMethod, channel, append(binary.BigEndian.AppendUint32(nil, method), args...)}))
}

// say sends frames; those of channel 1 go to the one that was opened last.
func (s *scripted) say(frames []frame) {
	frames = slices.Clone(frames)
	for i := range frames {
		if frames[i].channel == 1 {
			frames[i].channel = s.channel
		}
	}
	s.write(encode(frames...))
}

func (s *scripted) write(b []byte) {
	size := len(b)
	if s.trickle {
		size = 1
	}
	for part := range slices.Chunk(b, max(size, 1)) {
		if _, err := s.conn.Write(part); err != nil && !errors.Is(err, net.ErrClosed) {
			s.tb.Error(err)
			return
		}
	}
}

func encode(frames ...frame) (b []byte) {
	for _, f := range frames {
		b = append(appendFrameHead(b, f.kind, f.channel, len(f.payload)), f.payload...)
		b = append(b, frameEnd)
	}
	return b
}

// answerTo is the broker's answer to a message on channel 1.
func answerTo(method uint32, tag uint64, multiple bool) frame {
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, method), tag)
	flags := byte(0)
	if multiple {
		flags = 1
	}
	return frame{frameMethod, 1, append(payload, flags)}
}

// returned are the frames that give a message back.
func returned(message []frame) []frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, basicReturn), amqp.NoRoute)
	p = appendShort(p, "NO_ROUTE")
	published := message[0].payload
	p = append(p, published[6:len(published)-1]...) // exchange and key
	return append([]frame{{frameMethod, 1, p}}, message[1:]...)
}

// closing is the broker's end of channel 1.
func closing(code uint16, text string) []frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, channelClose), code)
	return []frame{{frameMethod, 1, append(appendShort(p, text), 0, 60, 0, 40)}}
}

// receiving returns what a script has seen.
func receiving[T any](tb testing.TB, c <-chan T) (value T) {
	tb.Helper()
	select {
	case value = <-c:
	case <-time.After(5 * time.Second):
		tb.Fatal("nothing came")
	}
	return value
}
