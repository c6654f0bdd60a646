package clock

import (
	"encoding/binary"
	"errors"
)

// Message is a message of RabbitMQ that waits as the payload of an alarm (MessagePayload). Its ring publishes it to
// Exchange.
type Message struct {
	Exchange   string // at most maxMessageName bytes; "" is the broker's default exchange
	RoutingKey string // at most maxMessageName bytes
	Properties []byte // flags and values of the properties, as a content header of AMQP 0-9-1 has them after the size of the body
	Body       []byte
}

// maxMessageName is the longest exchange or routing key of a message, in bytes: AMQP's short strings have one byte for
// their length.
const maxMessageName = 255

// messageFormat is the first byte of a packed message. A later format would have another number.
const messageFormat = 1

var (
	errLongName       = errors.New("the exchange or the routing key has more than 255 bytes")
	errUnknownMessage = errors.New("the payload is no message of a known format")
	errCutMessage     = errors.New("the payload ends within a message")
)

// Pack returns the message as an alarm stores it:
//
//	format (1 byte), exchange and routing key (1 byte of length each), properties (4 bytes of length, big endian), body (the rest)
func (m *Message) Pack() ([]byte, error) {
	if len(m.Exchange) > maxMessageName || len(m.RoutingKey) > maxMessageName {
		return nil, errLongName
	}
	b := make([]byte, 0, 1+1+len(m.Exchange)+1+len(m.RoutingKey)+4+len(m.Properties)+len(m.Body))
	b = append(b, messageFormat, byte(len(m.Exchange)))
	b = append(append(b, m.Exchange...), byte(len(m.RoutingKey)))
	b = append(b, m.RoutingKey...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(m.Properties)))
	return append(append(b, m.Properties...), m.Body...), nil
}

// UnpackMessage returns the message that Pack packed. Properties and Body are parts of packed.
func UnpackMessage(packed []byte) (*Message, error) {
	if len(packed) == 0 || packed[0] != messageFormat {
		return nil, errUnknownMessage
	}
	exchange, rest, found := cutName(packed[1:])
	if !found {
		return nil, errCutMessage
	}
	key, rest, found := cutName(rest)
	if !found || len(rest) < 4 {
		return nil, errCutMessage
	}
	size, rest := uint64(binary.BigEndian.Uint32(rest)), rest[4:]
	if size > uint64(len(rest)) {
		return nil, errCutMessage
	}
	return &Message{Exchange: string(exchange), RoutingKey: string(key), Properties: rest[:size:size], Body: rest[size:]}, nil
}

// cutName cuts a name with its length before it off the beginning of b.
func cutName(b []byte) (name, rest []byte, found bool) {
	if len(b) == 0 || len(b) <= int(b[0]) {
		return nil, nil, false
	}
	end := 1 + int(b[0])
	return b[1:end], b[end:], true
}
