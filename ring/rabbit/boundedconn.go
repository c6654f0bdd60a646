package rabbit

import (
	"bufio"
	"encoding/binary"
	"net"
)

// maxHeader bounds the payload of a content header frame that a consumer's connection passes on, in bytes. An answer needs some hundred.
const maxHeader = 8 << 10

// Size of the fixed part of a content header frame (class, weight, body size, flags), and offset of the body size in it.
const (
	contentHeaderSize = 2 + 2 + 8 + 2
	bodySizeAt        = 2 + 2
)

// boundedConn wraps the connection of a consumer and bounds the memory that amqp091-go holds for each message. The library collects whole
// bodies of up to 512 MiB, for as many messages as the prefetch allows. RabbitMQ does not implement the protocol's prefetch in bytes.
//
// A body of more than maxBody bytes is read and dropped, and the library sees an empty body. If the header exceeds maxHeader, the
// properties are dropped, and the library sees a message without properties.
type boundedConn struct {
	net.Conn
	maxBody uint64

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
	head, err := c.reader.Peek(frameHeadSize)
	if err != nil {
		return err
	}
	kind, channel, size := head[0], binary.BigEndian.Uint16(head[1:]), binary.BigEndian.Uint32(head[3:])
	whole := frameOverhead + uint64(size)
	switch {
	case kind == frameHeader && size >= contentHeaderSize:
		return c.header(channel, size)
	case kind == frameBody && c.dropping[channel]:
		// the broker sends no heartbeats during a body, and the library must see that it is alive
		c.pending = heartbeat[:]
		_, err := c.reader.Discard(int(whole))
		return err
	default:
		c.passThrough = whole
		return nil
	}
}

// header replaces a content header frame whose body or properties are too large.
func (c *boundedConn) header(channel uint16, size uint32) error {
	front, err := c.reader.Peek(frameHeadSize + contentHeaderSize)
	if err != nil {
		return err
	}
	body := binary.BigEndian.Uint64(front[frameHeadSize+bodySizeAt:])
	c.dropping[channel] = body > c.maxBody
	if body <= c.maxBody && size <= maxHeader {
		c.passThrough = frameOverhead + uint64(size)
		return nil
	}
	if size <= maxHeader {
		frame, err := c.reader.Peek(frameOverhead + int(size))
		if err != nil {
			return err
		}
		c.pending = append([]byte(nil), frame...)
	} else {
		c.pending = appendFrameHead(nil, frameHeader, channel, contentHeaderSize)
		c.pending = append(c.pending, front[frameHeadSize:frameHeadSize+contentHeaderSize-2]...)
		c.pending = append(c.pending, 0, 0, frameEnd) // no flags: no properties
	}
	if c.dropping[channel] {
		binary.BigEndian.PutUint64(c.pending[frameHeadSize+bodySizeAt:], 0)
	}
	_, err = c.reader.Discard(frameOverhead + int(size))
	return err
}
