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

// scriptedBroker is a broker for one connection. A test decides its frames.
type scriptedBroker struct {
	tb       testing.TB
	frameMax uint32
	trickle  bool // write each byte alone
	listener net.Listener
	conn     net.Conn
	reader   *bufio.Reader
	channel  uint16 // id of the channel in confirm mode
	wait     sync.WaitGroup
}

// frame is one frame of the protocol.
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

// script starts a broker that does the handshake and then calls play.
func script(tb testing.TB, frameMax uint32, play func(s *scriptedBroker)) *scriptedBroker {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &scriptedBroker{tb: tb, frameMax: frameMax, listener: listener}
	s.wait.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.conn = conn
		defer s.conn.Close()
		s.reader = bufio.NewReader(s.conn)
		s.handshake()
		play(s)
	})
	tb.Cleanup(func() { _ = listener.Close(); s.wait.Wait() })
	return s
}

func (s *scriptedBroker) url() string { return "amqp://" + s.listener.Addr().String() + "/" }

// lane returns a lane to the broker. gather is its GatherBytes.
func (s *scriptedBroker) lane(gather int) *lane {
	s.tb.Helper()
	cfg := DefaultConfig()
	cfg.URL, cfg.GatherBytes = s.url(), gather
	session, err := New(cfg, Deps{})
	if err != nil {
		s.tb.Fatal(err)
	}
	session.health.probePassed(0, time.Now())
	return laneOf(s.tb, session)
}

func (s *scriptedBroker) handshake() {
	if _, err := io.ReadFull(s.reader, make([]byte, 8)); err != nil { // the protocol's name
		s.tb.Error(err)
		return
	}
	start := binary.BigEndian.AppendUint32([]byte{0, 9}, 0) // no properties
	start = append(binary.BigEndian.AppendUint32(start, 5), "PLAIN"...)
	s.sendMethod(0, connectionStart, append(binary.BigEndian.AppendUint32(start, 5), "en_US"...))
	s.read()
	tune := binary.BigEndian.AppendUint32([]byte{0, 0}, s.frameMax)
	s.sendMethod(0, connectionTune, append(tune, 0, 0))
	s.until(connectionOpen)
	s.sendMethod(0, connectionOpenOk, []byte{0})
}

// openConfirmChannel waits for the opening of a channel in confirm mode, and accepts it.
func (s *scriptedBroker) openConfirmChannel() {
	s.channel = s.until(channelOpen).channel
	s.sendMethod(s.channel, channelOpenOk, make([]byte, 4))
	s.until(confirmSelect)
	s.sendMethod(s.channel, confirmSelectOk, nil)
}

// read returns the next frame, or a zero frame at the end of the connection.
func (s *scriptedBroker) read() frame {
	head := make([]byte, frameHeadSize)
	if _, err := io.ReadFull(s.reader, head); err != nil {
		return frame{}
	}
	f := frame{head[0], binary.BigEndian.Uint16(head[1:]), make([]byte, binary.BigEndian.Uint32(head[3:]))}
	if s.frameMax > 0 && len(f.payload)+frameOverhead > int(s.frameMax) {
		s.tb.Errorf("a frame of %d bytes, agreed were %d", len(f.payload)+frameOverhead, s.frameMax)
	}
	_, _ = io.ReadFull(s.reader, f.payload)
	if end, err := s.reader.ReadByte(); err == nil && end != frameEnd {
		s.tb.Errorf("a frame ends with %#x", end)
	}
	return f
}

// until skips frames until a frame with the method. It returns that frame, or a zero frame at the end of the
// connection.
func (s *scriptedBroker) until(method uint32) frame {
	for {
		if f := s.read(); f.kind == 0 || f.method() == method {
			return f
		}
	}
}

// messages reads n messages and returns the frames of the last one.
func (s *scriptedBroker) messages(n int) (frames []frame) {
	for ; n > 0; n-- {
		frames = []frame{s.until(basicPublish), s.read()}
		if len(frames[1].payload) < 12 {
			return nil
		}
		for left := binary.BigEndian.Uint64(frames[1].payload[4:]); left > 0; {
			f := s.read()
			if f.kind != frameBody {
				s.tb.Errorf("a frame of type %d inside a body", f.kind)
				return nil
			}
			left -= uint64(len(f.payload))
			frames = append(frames, f)
		}
	}
	return frames
}

// sendMethod sends one method frame.
func (s *scriptedBroker) sendMethod(channel uint16, method uint32, args []byte) {
	s.write(encode(frame{frameMethod, channel, append(binary.BigEndian.AppendUint32(nil, method), args...)}))
}

// sendFrames sends frames. Channel 1 in a frame stands for the last opened channel.
func (s *scriptedBroker) sendFrames(frames []frame) {
	frames = slices.Clone(frames)
	for i := range frames {
		if frames[i].channel == 1 {
			frames[i].channel = s.channel
		}
	}
	s.write(encode(frames...))
}

func (s *scriptedBroker) write(b []byte) {
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

// confirmFrame returns the broker's basic.ack or basic.nack on channel 1.
func confirmFrame(method uint32, tag uint64, multiple bool) frame {
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, method), tag)
	flags := byte(0)
	if multiple {
		flags = 1
	}
	return frame{frameMethod, 1, append(payload, flags)}
}

// returnFrames returns the frames of the broker's basic.return of a message.
func returnFrames(message []frame) []frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, basicReturn), amqp.NoRoute)
	p = appendShort(p, "NO_ROUTE")
	published := message[0].payload
	p = append(p, published[6:len(published)-1]...) // exchange and key
	return append([]frame{{frameMethod, 1, p}}, message[1:]...)
}

// channelCloseFrames returns the broker's channel.close on channel 1.
func channelCloseFrames(code uint16, text string) []frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, channelClose), code)
	return []frame{{frameMethod, 1, append(appendShort(p, text), 0, 60, 0, 40)}}
}

// receiveSoon returns the next value from c, and fails if none comes.
func receiveSoon[T any](tb testing.TB, c <-chan T) (value T) {
	tb.Helper()
	select {
	case value = <-c:
	case <-time.After(hangGuard):
		tb.Fatal("nothing came")
	}
	return value
}
