package scripted

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Types and parts of frames (AMQP 0-9-1, section 2.3.5).
const (
	KindMethod    = 1
	KindHeader    = 2
	KindBody      = 3
	KindHeartbeat = 8
	EndMark       = 0xce

	HeadSize  = 1 + 2 + 4    // type, channel and size of the payload
	FrameRest = HeadSize + 1 // bytes of a frame beside its payload
)

// Methods of the protocol, as class and method.
const (
	ClassOfBasic     = 60
	MethodPublish    = ClassOfBasic<<16 | 40
	MethodAck        = ClassOfBasic<<16 | 80
	MethodNack       = ClassOfBasic<<16 | 120
	methodSelectOk   = 85<<16 | 11
	connectionStart  = 10<<16 | 10
	connectionTune   = 10<<16 | 30
	connectionOpen   = 10<<16 | 40
	connectionOpenOk = 10<<16 | 41
	ConnectionClose  = 10<<16 | 50
	ChannelOpen      = 20<<16 | 10
	ChannelOpenOk    = 20<<16 | 11
	ChannelClose     = 20<<16 | 40
	ChannelCloseOk   = 20<<16 | 41
	methodReturn     = ClassOfBasic<<16 | 50
	ConfirmSelect    = 85<<16 | 10
)

// Broker is a broker for one connection. A test decides its frames.
type Broker struct {
	TB       testing.TB
	frameMax uint32
	Trickle  bool // write each byte alone
	Listener net.Listener
	Conn     net.Conn
	Reader   *bufio.Reader
	Channel  uint16 // id of the channel in confirm mode
	wait     sync.WaitGroup
}

// Frame is one frame of the protocol.
type Frame struct {
	Kind    byte
	Channel uint16
	Payload []byte
}

// Method returns the class and the method of a method frame, 0 for another frame.
func (f Frame) Method() uint32 {
	if f.Kind != KindMethod {
		return 0
	}
	return binary.BigEndian.Uint32(f.Payload)
}

// FrameOf returns a frame.
func FrameOf(kind byte, channel uint16, payload []byte) Frame { return Frame{kind, channel, payload} }

// Start starts a broker that does the handshake and then calls play.
func Start(tb testing.TB, frameMax uint32, play func(s *Broker)) *Broker {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &Broker{TB: tb, frameMax: frameMax, Listener: listener}
	s.wait.Go(func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		s.Conn = conn
		defer s.Conn.Close()
		s.Reader = bufio.NewReader(s.Conn)
		s.handshake()
		play(s)
	})
	tb.Cleanup(func() { _ = listener.Close(); s.wait.Wait() })
	return s
}

// URL returns the URL of the broker.
func (s *Broker) URL() string { return "amqp://" + s.Listener.Addr().String() + "/" }

func (s *Broker) handshake() {
	if _, err := io.ReadFull(s.Reader, make([]byte, 8)); err != nil { // the protocol's name
		s.TB.Error(err)
		return
	}
	start := binary.BigEndian.AppendUint32([]byte{0, 9}, 0) // no properties
	start = append(binary.BigEndian.AppendUint32(start, 5), "PLAIN"...)
	s.SendMethod(0, connectionStart, append(binary.BigEndian.AppendUint32(start, 5), "en_US"...))
	s.Read()
	tune := binary.BigEndian.AppendUint32([]byte{0, 0}, s.frameMax)
	s.SendMethod(0, connectionTune, append(tune, 0, 0))
	s.Until(connectionOpen)
	s.SendMethod(0, connectionOpenOk, []byte{0})
}

// OpenConfirmChannel waits for the opening of a channel in confirm mode, and accepts it.
func (s *Broker) OpenConfirmChannel() {
	s.Channel = s.Until(ChannelOpen).Channel
	s.SendMethod(s.Channel, ChannelOpenOk, make([]byte, 4))
	s.Until(ConfirmSelect)
	s.SendMethod(s.Channel, methodSelectOk, nil)
}

// Read returns the next frame, or a zero frame at the end of the connection.
func (s *Broker) Read() Frame {
	head := make([]byte, HeadSize)
	if _, err := io.ReadFull(s.Reader, head); err != nil {
		return Frame{}
	}
	f := Frame{head[0], binary.BigEndian.Uint16(head[1:]), make([]byte, binary.BigEndian.Uint32(head[3:]))}
	if s.frameMax > 0 && len(f.Payload)+FrameRest > int(s.frameMax) {
		s.TB.Errorf("a frame of %d bytes, agreed were %d", len(f.Payload)+FrameRest, s.frameMax)
	}
	_, _ = io.ReadFull(s.Reader, f.Payload)
	if end, err := s.Reader.ReadByte(); err == nil && end != EndMark {
		s.TB.Errorf("a frame ends with %#x", end)
	}
	return f
}

// Until skips frames until a frame with the method. It returns that frame, or a zero frame at the end of the
// connection.
func (s *Broker) Until(method uint32) Frame {
	for {
		if f := s.Read(); f.Kind == 0 || f.Method() == method {
			return f
		}
	}
}

// Messages reads n messages and returns the frames of the last one.
func (s *Broker) Messages(n int) (frames []Frame) {
	for ; n > 0; n-- {
		frames = []Frame{s.Until(MethodPublish), s.Read()}
		if len(frames[1].Payload) < 12 {
			return nil
		}
		for left := binary.BigEndian.Uint64(frames[1].Payload[4:]); left > 0; {
			f := s.Read()
			if f.Kind != KindBody {
				s.TB.Errorf("a frame of type %d inside a body", f.Kind)
				return nil
			}
			left -= uint64(len(f.Payload))
			frames = append(frames, f)
		}
	}
	return frames
}

// SendMethod sends one method frame.
func (s *Broker) SendMethod(channel uint16, method uint32, args []byte) {
	s.Write(Encode(Frame{KindMethod, channel, append(binary.BigEndian.AppendUint32(nil, method), args...)}))
}

// SendFrames sends frames. Channel 1 in a frame stands for the last opened channel.
func (s *Broker) SendFrames(frames []Frame) {
	frames = slices.Clone(frames)
	for i := range frames {
		if frames[i].Channel == 1 {
			frames[i].Channel = s.Channel
		}
	}
	s.Write(Encode(frames...))
}

// Write sends bytes.
func (s *Broker) Write(b []byte) {
	size := len(b)
	if s.Trickle {
		size = 1
	}
	for part := range slices.Chunk(b, max(size, 1)) {
		if _, err := s.Conn.Write(part); err != nil && !errors.Is(err, net.ErrClosed) {
			s.TB.Error(err)
			return
		}
	}
}

// Encode returns the bytes of frames.
func Encode(frames ...Frame) (b []byte) {
	for _, f := range frames {
		b = binary.BigEndian.AppendUint16(append(b, f.Kind), f.Channel)
		b = binary.BigEndian.AppendUint32(b, uint32(len(f.Payload)))
		b = append(append(b, f.Payload...), EndMark)
	}
	return b
}

// ConfirmFrame returns the broker's basic.ack or basic.nack on channel 1.
func ConfirmFrame(method uint32, tag uint64, multiple bool) Frame {
	payload := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, method), tag)
	flags := byte(0)
	if multiple {
		flags = 1
	}
	return Frame{KindMethod, 1, append(payload, flags)}
}

// ReturnFrames returns the frames of the broker's basic.return of a message.
func ReturnFrames(message []Frame) []Frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, methodReturn), amqp.NoRoute)
	p = ShortText(p, "NO_ROUTE")
	published := message[0].Payload
	p = append(p, published[6:len(published)-1]...) // exchange and key
	return append([]Frame{{KindMethod, 1, p}}, message[1:]...)
}

// ChannelCloseFrames returns the broker's channel.close on channel 1.
func ChannelCloseFrames(code uint16, text string) []Frame {
	p := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint32(nil, ChannelClose), code)
	return []Frame{{KindMethod, 1, append(ShortText(p, text), 0, 60, 0, 40)}}
}

// ShortText appends a short string of at most 255 bytes.
func ShortText(b []byte, text string) []byte { return append(append(b, byte(len(text))), text...) }

// Heartbeats are one heartbeat.
var Heartbeats = []Frame{{Kind: KindHeartbeat}}

// Each returns a confirm of each tag.
func Each(method uint32, tags ...uint64) (frames []Frame) {
	for _, tag := range tags {
		frames = append(frames, ConfirmFrame(method, tag, false))
	}
	return frames
}

// UpTo returns a confirm of all messages up to each tag.
func UpTo(method uint32, tags ...uint64) (frames []Frame) {
	for _, tag := range tags {
		frames = append(frames, ConfirmFrame(method, tag, true))
	}
	return frames
}

// Join returns all frames in one list.
func Join(parts ...[]Frame) (frames []Frame) {
	for _, p := range parts {
		frames = append(frames, p...)
	}
	return frames
}
