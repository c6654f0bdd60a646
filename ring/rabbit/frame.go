package rabbit

import "encoding/binary"

// Parts of a frame (AMQP 0-9-1, section 2.3.5): a head of type, channel and payload size, then the payload, then an
// end.
const (
	frameMethod    = 1
	frameHeader    = 2
	frameBody      = 3
	frameHeartbeat = 8
	frameEnd       = 0xce

	frameHeadSize = 1 + 2 + 4
	frameOverhead = frameHeadSize + 1
)

// The methods that this package writes and reads itself, as class and method.
const (
	classBasic      = 60
	basicPublish    = classBasic<<16 | 40
	basicAck        = classBasic<<16 | 80
	basicNack       = classBasic<<16 | 120
	confirmSelectOk = 85<<16 | 11
)

// Flags of the properties of a message, in the order in which the properties follow.
const (
	flagContentType     = 1 << 15
	flagContentEncoding = 1 << 14
	flagHeaders         = 1 << 13
	flagDeliveryMode    = 1 << 12
	flagPriority        = 1 << 11
	flagCorrelationID   = 1 << 10
	flagReplyTo         = 1 << 9
	flagExpiration      = 1 << 8
	flagMessageID       = 1 << 7
	flagTimestamp       = 1 << 6
	flagType            = 1 << 5
	flagUserID          = 1 << 4
	flagAppID           = 1 << 3
)

func appendFrameHead(b []byte, kind byte, channel uint16, size int) []byte {
	b = binary.BigEndian.AppendUint16(append(b, kind), channel)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// endFrame writes the size of the frame that begins at start, and appends its end.
func endFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-frameHeadSize))
	return append(b, frameEnd)
}

// appendShort appends a short string of at most maxShortString bytes.
func appendShort(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}

// A field of a table consists of a name, a letter for the type, and the value.

func appendText(b []byte, name, s string) []byte {
	b = append(appendShort(b, name), 'S')
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

func appendInt64(b []byte, name string, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(appendShort(b, name), 'l'), uint64(v))
}

func appendInt32(b []byte, name string, v int32) []byte {
	return binary.BigEndian.AppendUint32(append(appendShort(b, name), 'I'), uint32(v))
}
