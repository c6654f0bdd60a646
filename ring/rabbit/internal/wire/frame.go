package wire

import "encoding/binary"

// Parts of a frame (AMQP 0-9-1, section 2.3.5): a head of type, channel and payload size, then the payload, then an
// end.
const (
	FrameMethod    = 1
	FrameHeader    = 2
	FrameBody      = 3
	FrameHeartbeat = 8
	FrameEnd       = 0xce

	FrameHeadSize = 1 + 2 + 4
	FrameOverhead = FrameHeadSize + 1
)

// The methods that clockd writes and reads past the library, as class and method.
const (
	ClassBasic      = 60
	BasicPublish    = ClassBasic<<16 | 40
	BasicAck        = ClassBasic<<16 | 80
	BasicNack       = ClassBasic<<16 | 120
	ConfirmSelectOk = 85<<16 | 11
)

// Flags of the properties of a message, in the order in which the properties follow.
const (
	FlagContentType     = 1 << 15
	FlagContentEncoding = 1 << 14
	FlagHeaders         = 1 << 13
	FlagDeliveryMode    = 1 << 12
	FlagPriority        = 1 << 11
	FlagCorrelationID   = 1 << 10
	FlagReplyTo         = 1 << 9
	FlagExpiration      = 1 << 8
	FlagMessageID       = 1 << 7
	FlagTimestamp       = 1 << 6
	FlagType            = 1 << 5
	FlagUserID          = 1 << 4
	FlagAppID           = 1 << 3
)

// AppendFrameHead appends the head of a frame with a payload of this size.
func AppendFrameHead(b []byte, kind byte, channel uint16, size int) []byte {
	b = binary.BigEndian.AppendUint16(append(b, kind), channel)
	return binary.BigEndian.AppendUint32(b, uint32(size))
}

// AppendContentHead appends the beginning of the frame of a content header, up to its properties.
func AppendContentHead(b []byte, channel uint16, bodySize int) []byte {
	b = AppendFrameHead(b, FrameHeader, channel, 0)
	b = append(b, 0, ClassBasic, 0, 0) // class, and an unused weight
	return binary.BigEndian.AppendUint64(b, uint64(bodySize))
}

// EndFrame writes the size of the frame that begins at start, and appends its end.
func EndFrame(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+3:], uint32(len(b)-start-FrameHeadSize))
	return append(b, FrameEnd)
}

// MaxShortString is the protocol's bound for short strings, in bytes.
const MaxShortString = 255

// AppendShort appends a short string of at most MaxShortString bytes.
func AppendShort(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...)
}

// AppendText appends a field of a table: its name, a letter for the type, and the value.
func AppendText(b []byte, name, s string) []byte {
	b = append(AppendShort(b, name), 'S')
	return append(binary.BigEndian.AppendUint32(b, uint32(len(s))), s...)
}

// AppendInt64 is AppendText for a number of 64 bits.
func AppendInt64(b []byte, name string, v int64) []byte {
	return binary.BigEndian.AppendUint64(append(AppendShort(b, name), 'l'), uint64(v))
}

// AppendInt32 is AppendText for a number of 32 bits.
func AppendInt32(b []byte, name string, v int32) []byte {
	return binary.BigEndian.AppendUint32(append(AppendShort(b, name), 'I'), uint32(v))
}
