package wire

import (
	"encoding/binary"
	"fmt"
)

// The library ends the connection when it reads a table of headers that it refuses: more than 32 tables or arrays in
// each other, more than 8,192 elements in one table, an unknown type, or a cut value. RabbitMQ takes such a message,
// and delivers it again for ever. So clockd looks at each table before the library does. These bounds are below the
// library's, because dead letters and returned messages have more headers.
const (
	MaxTableDepth    = 30    // tables and arrays in each other
	MaxTableElements = 8_000 // elements of one table or array
)

// ErrUnreadable says why the library does not read the headers of a message.
var ErrUnreadable = fmt.Errorf("the headers cannot be read: they have more than %d tables in each other, more than %d elements in one, or a value of an unknown type",
	MaxTableDepth, MaxTableElements)

// isReadable reports whether the library reads the fields of a table, given without their size.
func isReadable(fields []byte) bool { return areReadable(fields, true, 0) }

// areReadable reports whether the library reads the fields of a table, or the values of an array.
func areReadable(b []byte, named bool, depth int) bool {
	if depth > MaxTableDepth {
		return false
	}
	for elements := 0; len(b) > 0; elements++ {
		if elements == MaxTableElements {
			return false
		}
		if named {
			if _, b = cutShort(b); b == nil {
				return false
			}
		}
		size := valueSize(b)
		if size == 0 || size > len(b) {
			return false
		}
		value := b[:size]
		b = b[size:]
		if kind := value[0]; (kind == 'A' || kind == 'F') && !areReadable(value[1+4:], kind == 'F', depth+1) {
			return false
		}
	}
	return true
}

// HeaderUnreadable marks a message whose headers the library does not read. Its value has their first bytes.
const HeaderUnreadable = "x-clockd-unreadable"

// withReadableHeaders returns a whole content header frame that the library reads: the frame itself, or a copy whose
// only header is HeaderUnreadable. changed reports which.
func withReadableHeaders(frame []byte) (readable []byte, changed bool) {
	p, err := propertiesOf(frame)
	if err != nil || isReadable(p.Fields) {
		return frame, false // the library ends the connection for properties that are cut: the broker never sends them
	}
	return withHeadersAsBytes(frame), true
}

// withHeadersAsBytes returns a copy of a whole content header frame whose only header is HeaderUnreadable.
func withHeadersAsBytes(frame []byte) []byte {
	return withFields(frame, func(b, fields []byte) []byte {
		raw := fields[:min(len(fields), MaxHeader)]
		b = append(AppendShort(b, HeaderUnreadable), 'x')
		return append(binary.BigEndian.AppendUint32(b, uint32(len(raw))), raw...)
	})
}

// withoutCounts returns a copy of a whole content header frame without the headers in which the broker counts
// deliveries.
func withoutCounts(frame []byte) []byte {
	return withFields(frame, func(b, fields []byte) []byte {
		for len(fields) > 0 {
			name, rest := cutShort(fields)
			size := valueSize(rest)
			if size == 0 || size > len(rest) {
				return append(b, fields...) // not complete
			}
			if kept := fields[:len(fields)-len(rest)+size]; !IsCount(string(name)) {
				b = append(b, kept...)
			}
			fields = rest[size:]
		}
		return b
	})
}

// withFields returns a copy of a whole content header frame with other fields in its table of headers. appendFields
// appends them to b. A frame whose properties are cut, or that has no headers, is returned unchanged.
func withFields(frame []byte, appendFields func(b, fields []byte) []byte) []byte {
	p, err := propertiesOf(frame)
	if err != nil || p.Flags&FlagHeaders == 0 {
		return frame
	}
	b := append([]byte(nil), frame[:FrameHeadSize+ContentHeaderSize]...)
	b = append(b, p.Before...)
	at := len(b)
	b = appendFields(append(b, 0, 0, 0, 0), p.Fields)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return EndFrame(append(b, p.After...), 0)
}

// propertiesOf divides the properties of a whole content header frame.
func propertiesOf(frame []byte) (Properties, error) {
	const flagsAt = FrameHeadSize + ContentHeaderSize - 2
	return DivideProperties(frame[flagsAt : len(frame)-1])
}

// IsCount reports whether the broker counts deliveries in the header.
func IsCount(name string) bool { return name == "x-delivery-count" || name == "x-acquired-count" }

// Text returns the value of a string header. AMQP has two forms of strings.
func Text(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case []byte:
		return string(v), true
	default:
		return "", false
	}
}
