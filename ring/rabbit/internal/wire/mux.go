package wire

import (
	"bufio"
	"encoding/binary"
	"math"
	"net"
	"sync"
	"sync/atomic"

	amqp "github.com/rabbitmq/amqp091-go"
)

// muxBuffer is the size of the mux's write buffer and of its read buffer, in bytes.
const muxBuffer = 16 << 10

// mux is the net.Conn that the library uses for a lane's connection, over the wire or over TLS. The library runs the
// connection. Messages and confirms bypass the library, because it needs some 80 allocations for each message.
//
//	lane ── publish ──▶ ┌─────┐               ┌─────┐
//	                    │ mux │ ── frames ──▶ │ TLS │ ──▶ wire ──▶ socket
//	library ── Write ─▶ └─────┘               └─────┘
//	library ◀─ Read ─── all other frames ◀── mux ── acks, nacks ──▶ confirms
//
// Lane and library write whole frames only, one after the other under mu. Read returns at most one frame for each call,
// and the library calls again only after it has handled that frame. So the mux notes a confirm after the library has
// handled all frames before it, in particular the return of the same message.
type mux struct {
	net.Conn
	confirms     *Confirms     // confirms of the lane's own channel
	sideConfirms sync.Map      // confirms of side channels: channel id to *Confirms
	openingSide  atomic.Bool   // true while a side channel is opened
	lastSide     atomic.Uint32 // id of the last opened side channel

	mu         sync.Mutex    // held during the writes of a message
	writer     *bufio.Writer // always empty between two messages
	frameHead  [FrameHeadSize]byte
	maxPayload int // largest payload of a frame; set before the first publish

	// owned by the reading goroutine
	reader      *bufio.Reader
	passThrough uint64 // bytes of the current frame still to return
	heartbeat   []byte // bytes of a heartbeat still to return
	channel     uint16 // id of the lane's own channel in confirm mode; 0: none yet
}

func newMux(conn net.Conn) *mux {
	return &mux{
		Conn: conn, confirms: newConfirms(),
		writer: bufio.NewWriterSize(conn, muxBuffer), reader: bufio.NewReaderSize(conn, muxBuffer),
	}
}

// setMaxFrame sets the largest frame that client and broker agreed on, in bytes; 0 means no limit.
func (m *mux) setMaxFrame(frame int) {
	m.maxPayload = math.MaxInt
	if frame > 0 {
		m.maxPayload = frame - FrameOverhead
	}
}

// Write writes whole frames of the library. The library flushes after each frame. The frames of the handshake are an
// exception, but they come before any message.
func (m *mux) Write(p []byte) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.Conn.Write(p)
}

// publish writes one message on c: head, which is whole frames, and body in further frames. After amqp.ErrClosed no
// byte of the message was written. Any other error ends the connection.
//
// The library marks a channel as closed before it replies to channel.close. So, under mu, no message can follow that
// reply. The broker would close the connection for such a message.
func (m *mux) publish(c *Channel, head, body []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c.IsClosed() {
		return amqp.ErrClosed
	}
	_, _ = m.writer.Write(head) // Flush returns the error
	for len(body) > 0 {
		part := body[:min(len(body), m.maxPayload)]
		body = body[len(part):]
		_, _ = m.writer.Write(AppendFrameHead(m.frameHead[:0], FrameBody, c.ID, len(part)))
		_, _ = m.writer.Write(part)
		_ = m.writer.WriteByte(FrameEnd)
	}
	return m.writer.Flush()
}

// heartbeat is a whole heartbeat frame.
var heartbeat = [...]byte{FrameHeartbeat, 0, 0, 0, 0, 0, 0, FrameEnd}

// Read returns the broker's frames, except the confirms of published messages. Instead of confirms it returns a
// heartbeat. The broker sends no heartbeats while it sends confirms, and the library must see that it is alive.
func (m *mux) Read(p []byte) (int, error) {
	if m.passThrough == 0 && len(m.heartbeat) == 0 {
		if err := m.nextFrame(); err != nil {
			return 0, err
		}
	}
	if len(m.heartbeat) > 0 {
		n := copy(p, m.heartbeat)
		m.heartbeat = m.heartbeat[n:]
		return n, nil
	}
	n, err := m.reader.Read(p[:min(uint64(len(p)), m.passThrough)])
	m.passThrough -= uint64(n)
	return n, err
}

// nextFrame advances to the next frame for the library, and notes the confirms before it.
func (m *mux) nextFrame() error {
	for {
		head, err := m.reader.Peek(FrameHeadSize)
		if err != nil {
			return err
		}
		size := binary.BigEndian.Uint32(head[3:])
		noted := false
		if head[0] == FrameMethod {
			if noted, err = m.takeConfirm(binary.BigEndian.Uint16(head[1:]), size); err != nil {
				return err
			}
		}
		if !noted {
			m.passThrough = FrameOverhead + uint64(size)
			return nil
		}
		if m.reader.Buffered() == 0 {
			m.heartbeat = heartbeat[:]
			return nil
		}
	}
}

// confirmsOf returns the confirms of a channel, nil if its confirms belong to the library.
func (m *mux) confirmsOf(channel uint16) *Confirms {
	if channel == m.channel {
		return m.confirms
	}
	if c, ok := m.sideConfirms.Load(channel); ok {
		return c.(*Confirms) //nolint:errcheck // the map stores no other type
	}
	return nil
}

// confirmSize is the size of the payload of basic.ack and basic.nack: class, method, delivery tag, flags.
const confirmSize = 2 + 2 + 8 + 1

// takeConfirm inspects a method frame. If the frame is a confirm of a published message, takeConfirm notes it and
// removes it from the stream. It also remembers the id of a channel that enters confirm mode. It leaves malformed
// frames to the library, which ends the connection.
func (m *mux) takeConfirm(channel uint16, size uint32) (noted bool, err error) {
	if size > confirmSize || size < 4 {
		return false, nil
	}
	frame, err := m.reader.Peek(FrameOverhead + int(size))
	if err != nil || frame[len(frame)-1] != FrameEnd {
		return false, err
	}
	payload := frame[FrameHeadSize:]
	id := binary.BigEndian.Uint32(payload)
	switch {
	case id == ConfirmSelectOk && m.openingSide.Load():
		m.lastSide.Store(uint32(channel))
	case id == ConfirmSelectOk:
		m.channel = channel
	}
	if size != confirmSize || (id != BasicAck && id != BasicNack) {
		return false, nil
	}
	confirms := m.confirmsOf(channel)
	if confirms == nil {
		return false, nil
	}
	a := Acked
	if id == BasicNack {
		a = Nacked
	}
	const multiple = 1
	confirms.note(binary.BigEndian.Uint64(payload[4:]), payload[12]&multiple != 0, a)
	_, err = m.reader.Discard(len(frame))
	return true, err
}
