package wire

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

var errCutProperties = errors.New("the properties of the message are not complete")

// ErrDeepTable refuses properties with too many tables in each other.
var ErrDeepTable = fmt.Errorf("a header has tables in each other, more than %d deep", MaxTableDepth)

// EncodeProperties returns the flags and the values of the properties of a message, without its user_id: the broker
// accepts only clockd's own user.
func EncodeProperties(d *amqp.Delivery) ([]byte, error) {
	var flags uint16
	b := []byte{0, 0}
	short := func(flag uint16, value string) {
		if value != "" {
			flags |= flag
			b = AppendShort(b, value)
		}
	}
	number := func(flag uint16, value uint8) {
		if value != 0 {
			flags |= flag
			b = append(b, value)
		}
	}
	short(FlagContentType, d.ContentType)
	short(FlagContentEncoding, d.ContentEncoding)
	if len(d.Headers) > 0 {
		var err error
		flags |= FlagHeaders
		if b, err = appendTable(b, d.Headers, 0); err != nil {
			return nil, err
		}
	}
	number(FlagDeliveryMode, d.DeliveryMode)
	number(FlagPriority, d.Priority)
	short(FlagCorrelationID, d.CorrelationId)
	short(FlagReplyTo, d.ReplyTo)
	short(FlagExpiration, d.Expiration)
	short(FlagMessageID, d.MessageId)
	if !d.Timestamp.IsZero() {
		flags |= FlagTimestamp
		b = binary.BigEndian.AppendUint64(b, uint64(d.Timestamp.Unix()))
	}
	short(FlagType, d.Type)
	short(FlagAppID, d.AppId)
	binary.BigEndian.PutUint16(b, flags)
	return b, nil
}

// Properties are encoded properties, divided at their headers.
type Properties struct {
	Flags  uint16
	Before []byte // the values before the headers
	Fields []byte // the fields of the headers, without the size of their table
	After  []byte // the values after the headers
}

// DivideProperties divides what EncodeProperties has encoded.
func DivideProperties(encoded []byte) (p Properties, err error) {
	if len(encoded) < 2 {
		return p, errCutProperties
	}
	p.Flags = binary.BigEndian.Uint16(encoded)
	values := encoded[2:]
	rest := values
	for _, flag := range []uint16{FlagContentType, FlagContentEncoding} {
		if p.Flags&flag == 0 {
			continue
		}
		if _, rest = cutShort(rest); rest == nil {
			return p, errCutProperties
		}
	}
	p.Before = values[:len(values)-len(rest)]
	if p.Flags&FlagHeaders == 0 {
		p.After = rest
		return p, nil
	}
	if len(rest) < 4 || uint64(binary.BigEndian.Uint32(rest)) > uint64(len(rest)-4) {
		return p, errCutProperties
	}
	end := 4 + int(binary.BigEndian.Uint32(rest))
	p.Fields, p.After = rest[4:end], rest[end:]
	return p, nil
}

// appendTable appends a table with its size. Its fields are in the order of their names, so that equal tables have
// equal bytes.
func appendTable(b []byte, table amqp.Table, depth int) ([]byte, error) {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, name := range slices.Sorted(maps.Keys(table)) {
		if len(name) > MaxShortString {
			return nil, fmt.Errorf("a header's name has %d bytes, AMQP allows %d", len(name), MaxShortString)
		}
		var err error
		if b, err = appendValue(AppendShort(b, name), table[name], depth); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b, nil
}

// appendValue appends a value with the letter of its type. The library reads these types.
func appendValue(b []byte, value any, depth int) ([]byte, error) {
	if depth > MaxTableDepth {
		return nil, ErrDeepTable
	}
	switch v := value.(type) {
	case nil:
		return append(b, 'V'), nil
	case bool:
		if v {
			return append(b, 't', 1), nil
		}
		return append(b, 't', 0), nil
	case string:
		return append(binary.BigEndian.AppendUint32(append(b, 'S'), uint32(len(v))), v...), nil
	case []byte:
		return append(binary.BigEndian.AppendUint32(append(b, 'x'), uint32(len(v))), v...), nil
	case time.Time:
		return binary.BigEndian.AppendUint64(append(b, 'T'), uint64(v.Unix())), nil
	case amqp.Decimal:
		return binary.BigEndian.AppendUint32(append(b, 'D', v.Scale), uint32(v.Value)), nil
	case amqp.Table:
		return appendTable(append(b, 'F'), v, depth+1)
	case []any:
		return appendArray(append(b, 'A'), v, depth+1)
	default:
		return appendNumber(b, value)
	}
}

func appendArray(b []byte, values []any, depth int) ([]byte, error) {
	at := len(b)
	b = append(b, 0, 0, 0, 0)
	for _, value := range values {
		var err error
		if b, err = appendValue(b, value, depth); err != nil {
			return nil, err
		}
	}
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b, nil
}

func appendNumber(b []byte, value any) ([]byte, error) {
	switch v := value.(type) {
	case int8:
		return append(b, 'b', byte(v)), nil
	case uint8:
		return append(b, 'B', v), nil
	case int16:
		return binary.BigEndian.AppendUint16(append(b, 's'), uint16(v)), nil
	case uint16:
		return binary.BigEndian.AppendUint16(append(b, 'u'), v), nil
	case int32:
		return binary.BigEndian.AppendUint32(append(b, 'I'), uint32(v)), nil
	case uint32:
		return binary.BigEndian.AppendUint32(append(b, 'i'), v), nil
	case int64:
		return binary.BigEndian.AppendUint64(append(b, 'l'), uint64(v)), nil
	case float32:
		return binary.BigEndian.AppendUint32(append(b, 'f'), math.Float32bits(v)), nil
	case float64:
		return binary.BigEndian.AppendUint64(append(b, 'd'), math.Float64bits(v)), nil
	default:
		return nil, fmt.Errorf("a header has a value of the type %T, which AMQP does not know", value)
	}
}
