package wire

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"sync/atomic"
)

// MaxHeader bounds the payload of a content header frame that a consumer's connection passes on, in bytes. An answer
// needs some hundred. lastingSize counts the bytes.
const MaxHeader = 8 << 10

// Bytes by which lastingSize differs from the size of the payload.
const (
	countHeaderSize = 1 + len("x-delivery-count") + 1 + 8 // a header of the broker that counts deliveries; they have names of equal length
	userIDAsHeader  = len("x-by") + 1 + 4                 // growth of a user_id that a copy turns into a header
	deliveryMode    = 1                                   // every copy has a delivery mode
)

// Size of the fixed part of a content header frame (class, weight, body size, flags), and offset of the body size in
// it.
const (
	ContentHeaderSize = 2 + 2 + 8 + 2
	bodySizeAt        = 2 + 2
)

// boundedConn wraps the connection of a consumer and bounds the memory that amqp091-go holds for each message. The
// library collects whole bodies of up to 512 MiB, for as many messages as the prefetch allows. RabbitMQ does not
// implement the protocol's prefetch in bytes.
//
// A body of more than maxBody bytes is read and dropped, and the library sees an empty body. If the header exceeds
// MaxHeader, the properties are dropped, and the library sees a message without properties. A redelivery and a copy
// have the same fate as the first delivery (lastingSize).
//
// With marks, a message that loses its body or its properties has the header HeaderOversized instead of its own
// properties, and no body.
//
// A message whose headers the library would not read (table.go) loses its properties. With marks it keeps all but the
// headers, and has the header HeaderUnreadable.
type boundedConn struct {
	net.Conn
	maxBody uint64
	marks   bool
	whole   bool // no message is too large

	maxFrame atomic.Int64 // largest frame that the library takes, in bytes; 0: no limit, or not known yet

	reader      *bufio.Reader
	passThrough uint64          // bytes of the current frame still to hand out unchanged
	pending     []byte          // bytes of a changed frame still to hand out
	dropping    map[uint16]bool // by channel: true while the current body is dropped
}

func newBoundedConn(conn net.Conn, maxBody int) *boundedConn {
	return &boundedConn{
		Conn: conn, maxBody: uint64(maxBody), reader: bufio.NewReaderSize(conn, muxBuffer), dropping: map[uint16]bool{},
	}
}

// newMarkingConn returns a boundedConn that marks the messages that it changes.
func newMarkingConn(conn net.Conn, maxBody int) *boundedConn {
	c := newBoundedConn(conn, maxBody)
	c.marks = true
	return c
}

// newWholeConn returns a boundedConn that changes unreadable headers, and headers that are too large for a frame, and
// nothing else.
func newWholeConn(conn net.Conn) *boundedConn {
	c := newMarkingConn(conn, 0)
	c.whole = true
	return c
}

// Read passes the broker's bytes to the library, without too large content.
func (c *boundedConn) Read(p []byte) (int, error) {
	for c.passThrough == 0 && len(c.pending) == 0 {
		if err := c.nextFrame(); err != nil {
			return 0, err
		}
	}
	if len(c.pending) > 0 {
		n := copy(p, c.pending)
		c.pending = c.pending[n:]
		return n, nil
	}
	n, err := c.reader.Read(p[:min(uint64(len(p)), c.passThrough)])
	c.passThrough -= uint64(n)
	return n, err
}

// nextFrame decides how the next frame goes to the library: unchanged, changed, or replaced by a heartbeat.
func (c *boundedConn) nextFrame() error {
	head, err := c.reader.Peek(FrameHeadSize)
	if err != nil {
		return err
	}
	kind, channel, size := head[0], binary.BigEndian.Uint16(head[1:]), binary.BigEndian.Uint32(head[3:])
	whole := FrameOverhead + uint64(size)
	switch {
	case kind == FrameHeader && size >= ContentHeaderSize:
		return c.header(channel, size)
	case kind == FrameBody && c.dropping[channel]:
		// the broker sends no heartbeats during a body, and the library must see that it is alive
		c.pending = heartbeat[:]
		_, err := c.reader.Discard(int(whole))
		return err
	default:
		c.passThrough = whole
		return nil
	}
}

// wholeHeader reads a content header frame of any size, and replaces unreadable headers. With the headers in which the
// broker counts deliveries a frame may be larger than client and broker have agreed on, and the library would end the
// connection at each delivery.
func (c *boundedConn) wholeHeader(size uint32) error {
	frame := make([]byte, FrameOverhead+int(size))
	if _, err := io.ReadFull(c.reader, frame); err != nil {
		return err
	}
	tooLarge := func() bool {
		most := int(c.maxFrame.Load())
		return most > 0 && len(frame) > most
	}
	if tooLarge() {
		frame = withoutCounts(frame)
	}
	if tooLarge() {
		frame = withHeadersAsBytes(frame)
	}
	c.pending, _ = withReadableHeaders(frame)
	return nil
}

// header replaces a content header frame whose body or properties are too large, or whose headers are unreadable.
func (c *boundedConn) header(channel uint16, size uint32) error {
	if c.whole {
		return c.wholeHeader(size)
	}
	fits, err := c.headerFits(int(size))
	if err != nil {
		return err
	}
	looked := FrameHeadSize + ContentHeaderSize
	if fits {
		looked = FrameOverhead + int(size)
	}
	frame, err := c.reader.Peek(looked) // valid until the next Peek
	if err != nil {
		return err
	}
	readable, changed := frame, false
	if fits {
		readable, changed = withReadableHeaders(frame)
	}
	body := binary.BigEndian.Uint64(frame[FrameHeadSize+bodySizeAt:])
	c.dropping[channel] = body > c.maxBody
	switch {
	case fits && !changed && !c.dropping[channel]:
		c.passThrough = FrameOverhead + uint64(size)
		return nil
	case fits && c.marks && !c.dropping[channel]:
		c.pending = readable
	case c.marks:
		c.dropping[channel] = body > 0
		c.pending = oversizedHeader(channel)
	case fits && !changed:
		c.pending = withoutBody(frame)
	default:
		c.pending = withoutProperties(frame, c.dropping[channel])
	}
	_, err = c.reader.Discard(FrameOverhead + int(size))
	return err
}

// withoutBody returns a whole content header frame of a message without a body.
func withoutBody(frame []byte) []byte {
	b := bytes.Clone(frame)
	binary.BigEndian.PutUint64(b[FrameHeadSize+bodySizeAt:], 0)
	return b
}

// withoutProperties returns the content header frame of a message without properties. front is the begin of its frame.
func withoutProperties(front []byte, dropped bool) []byte {
	b := bytes.Clone(front[:FrameHeadSize+ContentHeaderSize-2])
	b = EndFrame(append(b, 0, 0), 0) // no flags: no properties
	if dropped {
		return withoutBody(b)
	}
	return b
}

// HeaderOversized marks a message that was too large for the connection.
const HeaderOversized = "x-clockd-oversized"

// oversizedHeader returns the content header frame of a message with the mark and without a body.
func oversizedHeader(channel uint16) []byte {
	b := AppendContentHead(nil, channel, 0)
	b = binary.BigEndian.AppendUint16(b, FlagHeaders)
	b = binary.BigEndian.AppendUint32(b, uint32(1+len(HeaderOversized)+2))
	b = append(AppendShort(b, HeaderOversized), 't', 1)
	return EndFrame(b, 0)
}

// headerFits reports whether the properties of the next frame stay. size is the size of its payload.
func (c *boundedConn) headerFits(size int) (bool, error) {
	switch {
	case size <= MaxHeader-userIDAsHeader-deliveryMode:
		return true, nil
	case size > MaxHeader+2*countHeaderSize:
		return false, nil
	}
	frame, err := c.reader.Peek(FrameHeadSize + size)
	if err != nil {
		return false, err
	}
	return lastingSize(frame[FrameHeadSize:]) <= MaxHeader, nil
}

// lastingSize returns the size of the payload of a content header frame, without the bytes that the broker adds at a
// redelivery, and with the bytes that copyOf adds. So a redelivery has the same lasting size as the first delivery, and
// no copy has a larger one. Otherwise an answer that waits for the database could exceed MaxHeader at its second
// delivery, and be lost.
func lastingSize(payload []byte) int {
	size := len(payload)
	flags, rest := binary.BigEndian.Uint16(payload[ContentHeaderSize-2:]), payload[ContentHeaderSize:]
	if flags&FlagDeliveryMode == 0 {
		size += deliveryMode
	}
	if flags&FlagUserID != 0 {
		size += userIDAsHeader
	}
	for _, flag := range []uint16{FlagContentType, FlagContentEncoding} { // they precede the headers
		if flags&flag != 0 {
			_, rest = cutShort(rest)
		}
	}
	if flags&FlagHeaders == 0 || len(rest) < 4 {
		return size
	}
	table := rest[4:]
	return size - countHeaders(table[:min(uint64(binary.BigEndian.Uint32(rest)), uint64(len(table)))])
}

// countHeaders returns the size of the headers in which the broker counts deliveries. If the sender has set them, it
// counts each name once, and no more bytes than the broker's own header has.
func countHeaders(table []byte) (size int) {
	counted := map[string]bool{}
	for len(table) > 0 {
		name, rest := cutShort(table)
		n := valueSize(rest)
		if n == 0 || n > len(rest) {
			break // not complete
		}
		if IsCount(string(name)) && !counted[string(name)] {
			counted[string(name)] = true
			size += min(1+len(name)+n, countHeaderSize)
		}
		table = rest[n:]
	}
	return size
}

// cutShort cuts a short string off the beginning of b. If it is not complete, rest is nil.
func cutShort(b []byte) (s, rest []byte) {
	if len(b) == 0 || len(b) <= int(b[0]) {
		return nil, nil
	}
	end := 1 + int(b[0])
	return b[1:end], b[end:]
}

// valueSize returns the size of the value at the beginning of b, with the letter of its type. 0: the letter is unknown,
// or the value is not complete.
func valueSize(b []byte) int {
	if len(b) == 0 {
		return 0
	}
	switch b[0] {
	case 'V':
		return 1
	case 't', 'b', 'B':
		return 1 + 1
	case 's', 'u':
		return 1 + 2
	case 'I', 'i', 'f':
		return 1 + 4
	case 'D':
		return 1 + 5
	case 'l', 'd', 'T':
		return 1 + 8
	case 'S', 'x', 'A', 'F':
		if len(b) >= 1+4 {
			return 1 + 4 + int(binary.BigEndian.Uint32(b[1:]))
		}
	}
	return 0
}
