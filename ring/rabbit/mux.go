package rabbit

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"sync"

	amqp "github.com/rabbitmq/amqp091-go"
)

// muxBuffer is how much of a message, and of what the broker sends, is handled at once.
const muxBuffer = 16 << 10

// mux is the net.Conn that the library has of a lane's connection, over the wire or over TLS. The library leads the
// connection; messages and confirms go past it, because it needs some 80 allocations for each.
//
//	lane ── publish ──▶ ┌─────┐               ┌─────┐
//	                    │ mux │ ── frames ──▶ │ TLS │ ──▶ wire ──▶ socket
//	library ── Write ─▶ └─────┘               └─────┘
//	library ◀─ Read ─── all other frames ◀── mux ── acks, nacks ──▶ confirms
//
// Both write whole frames only, one after the other under mu. Read hands out at most one frame a call, and the library
// comes for more only when it has dealt with that: so an answer is noted after everything that came before it,
// above all the return of the same message.
type mux struct {
	net.Conn
	confirms *confirms

	mu   sync.Mutex    // held over the writes of a message
	out  *bufio.Writer // empty between two messages
	head [frameHeadSize]byte
	room int // of a frame's payload; set before the first publish

	// of the reading goroutine
	in      *bufio.Reader
	rest    uint64 // bytes of the frame that is being handed out
	beat    []byte // of a heartbeat that is being handed out
	channel uint16 // the one in confirm mode; 0: none yet
}

func newMux(conn net.Conn) *mux {
	return &mux{
		Conn: conn, confirms: newConfirms(),
		out: bufio.NewWriterSize(conn, muxBuffer), in: bufio.NewReaderSize(conn, muxBuffer),
	}
}

// limit tells the largest frame that was agreed on, 0 for any.
func (m *mux) limit(frame int) {
	m.room = math.MaxInt
	if frame > 0 {
		m.room = frame - frameOverhead
	}
}

// Write takes whole frames from the library: it flushes after each but those of the handshake, before any message.
func (m *mux) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Conn.Write(p)
}

// publish writes one message on c: the frames of its head, and body in frames of its own. After amqp.ErrClosed nothing of
// it was written; any other error is the connection's end.
//
// The library marks a channel as closed before it answers channel.close, so under mu no message can follow that answer:
// the broker would close the connection for it.
func (m *mux) publish(c *channel, head, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.IsClosed() {
		return amqp.ErrClosed
	}
	_, _ = m.out.Write(head) // an error stays until Flush
	for len(body) > 0 {
		part := body[:min(len(body), m.room)]
		body = body[len(part):]
		_, _ = m.out.Write(appendFrameHead(m.head[:0], frameBody, c.id, len(part)))
		_, _ = m.out.Write(part)
		_ = m.out.WriteByte(frameEnd)
	}
	return m.out.Flush()
}

// heartbeat is a whole frame of it.
var heartbeat = [...]byte{frameHeartbeat, 0, 0, 0, 0, 0, 0, frameEnd}

// Read hands what the broker sends to the library, except for the answers to our messages. In place of those it gets a
// heartbeat: it must see that the broker is alive, which sends none while it answers.
func (m *mux) Read(p []byte) (int, error) {
	if m.rest == 0 && len(m.beat) == 0 {
		if err := m.next(); err != nil {
			return 0, err
		}
	}
	if len(m.beat) > 0 {
		n := copy(p, m.beat)
		m.beat = m.beat[n:]
		return n, nil
	}
	n, err := m.in.Read(p[:min(uint64(len(p)), m.rest)])
	m.rest -= uint64(n)
	return n, err
}

// next goes to the next frame for the library. It notes the answers before it.
func (m *mux) next() error {
	for {
		head, err := m.in.Peek(frameHeadSize)
		if err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[3:])
		noted := false
		if head[0] == frameMethod {
			if noted, err = m.method(binary.BigEndian.Uint16(head[1:]), size); err != nil {
				return err
			}
		}
		if !noted {
			m.rest = frameOverhead + uint64(size)
			return nil
		}
		if m.in.Buffered() == 0 {
			m.beat = heartbeat[:]
			return nil
		}
	}
}

// answerSize is the payload of basic.ack and basic.nack: class, method, delivery tag, flags.
const answerSize = 2 + 2 + 8 + 1

// method looks at a method frame, and takes it out of the stream where it is an answer to one of our messages. A frame
// that is not as it should be is left to the library, which ends the connection for it.
func (m *mux) method(channel uint16, size uint32) (noted bool, err error) {
	if size > answerSize || size < 4 {
		return false, nil
	}
	frame, err := m.in.Peek(frameOverhead + int(size))
	if err != nil || frame[len(frame)-1] != frameEnd {
		return false, err
	}
	payload := frame[frameHeadSize:]
	id := binary.BigEndian.Uint32(payload)
	if id == confirmSelectOk {
		m.channel = channel
	}
	if channel != m.channel || size != answerSize || (id != basicAck && id != basicNack) {
		return false, nil
	}
	a := acked
	if id == basicNack {
		a = nacked
	}
	const multiple = 1
	m.confirms.note(binary.BigEndian.Uint64(payload[4:]), payload[12]&multiple != 0, a)
	_, err = m.in.Discard(len(frame))
	return true, err
}
