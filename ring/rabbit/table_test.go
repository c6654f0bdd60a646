package rabbit

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"slices"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// nested returns depth arrays in each other.
func nested(depth int) any {
	var value any = int32(1)
	for range depth {
		value = []any{value}
	}
	return value
}

// numbered returns n headers.
func numbered(n int) amqp.Table {
	t := amqp.Table{}
	for i := range n {
		t[fmt.Sprint("h", i)] = true
	}
	return t
}

// unreadable returns headers that RabbitMQ takes, and that the library does not read: too deep, too wide, and too many
// with one more.
func unreadable() []amqp.Table {
	return []amqp.Table{{"deep": nested(61)}, {"wide": slices.Repeat([]any{true}, 9000)}, numbered(8191)}
}

// rawArray returns a field with an array of n bits.
func rawArray(name string, n int) []byte {
	b := append(appendShort(nil, name), 'A')
	b = binary.BigEndian.AppendUint32(b, uint32(2*n))
	return append(b, bytes.Repeat([]byte{'t', 1}, n)...)
}

// rawNested returns a field with depth tables in each other.
func rawNested(name string, depth int) []byte {
	inner := append(appendShort(nil, name), 'V')
	for range depth {
		outer := append(appendShort(nil, name), 'F')
		inner = append(binary.BigEndian.AppendUint32(outer, uint32(len(inner))), inner...)
	}
	return inner
}

func TestUnreadableHeadersAreNoticed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		fields []byte
		want   bool
	}{
		{"none", nil, true},
		{"every type", everyField(), true},
		{"deep", rawNested("d", MaxTableDepth), true},
		{"too deep", rawNested("d", MaxTableDepth+1), false},
		{"wide", rawArray("w", MaxTableElements), true},
		{"too wide", rawArray("w", MaxTableElements+1), false},
		{"an unknown type", append(appendShort(nil, "u"), '?'), false},
		{"a cut name", []byte{5, 'a'}, false},
		{"a cut value", append(appendShort(nil, "c"), 'l', 0), false},
		{"an array that is longer than its table", append(appendShort(nil, "a"), 'A', 0, 0, 0, 9, 't', 1), false},
	} {
		if isReadable(c.fields) != c.want {
			t.Errorf("%s: readable %t", c.name, !c.want)
		}
	}
}

// everyField returns a field of each type.
func everyField() (b []byte) {
	for _, value := range []string{
		"V", "t\x01", "b\x01", "B\x01", "s\x00\x01", "u\x00\x01", "I\x00\x00\x00\x01", "i\x00\x00\x00\x01",
		"f\x00\x00\x00\x01", "D\x01\x00\x00\x00\x01",
		"l\x00\x00\x00\x00\x00\x00\x00\x01", "d\x00\x00\x00\x00\x00\x00\x00\x01", "T\x00\x00\x00\x00\x00\x00\x00\x01",
		"S\x00\x00\x00\x01s",
		"x\x00\x00\x00\x01x", "A\x00\x00\x00\x01V", "F\x00\x00\x00\x03\x01nV",
	} {
		b = append(appendShort(b, "of"+value[:1]), value...)
	}
	return b
}

// headerFrame returns a content header frame with these fields of its headers, and with the other properties on both
// sides of them.
func headerFrame(channel uint16, fields []byte) []byte {
	p := append([]byte{0, classBasic, 0, 0}, make([]byte, 8)...)
	p = binary.BigEndian.AppendUint16(p, flagContentType|flagHeaders|flagMessageID)
	p = append(binary.BigEndian.AppendUint32(appendShort(p, "text/plain"), uint32(len(fields))), fields...)
	return encode(frame{frameHeader, channel, appendShort(p, "id")})
}

// Whatever the headers of a message are: the library reads the message that the connection passes on, and its other
// properties are the message's own.
func FuzzLibraryReadsTheHeaders(f *testing.F) {
	for _, fields := range [][]byte{
		nil, everyField(), rawNested("d", 31), rawNested("d", 61), rawArray("w", 9000),
		append(appendShort(nil, "u"), '?'), {5, 'a'},
		append(appendShort(nil, "a"), 'A', 0, 0, 0, 9, 't', 1), bytes.Repeat([]byte("\x01aV"), 8193),
	} {
		f.Add(fields)
	}
	f.Fuzz(func(t *testing.T, fields []byte) {
		s := script(t, 0, func(s *scriptedBroker) {
			channel := s.until(channelOpen).channel
			s.sendMethod(channel, channelOpenOk, make([]byte, 4))
			const consume, consumeOk, deliver = classBasic<<16 | 20, classBasic<<16 | 21, classBasic<<16 | 60
			s.until(consume)
			s.sendMethod(channel, consumeOk, appendShort(nil, "c"))
			args := append(appendShort(nil, "c"), 0, 0, 0, 0, 0, 0, 0, 1, 0)
			s.sendMethod(channel, deliver, appendShort(appendShort(args, ""), "q"))
			s.write(headerFrame(channel, fields))
			s.until(connectionClose)
			s.sendMethod(0, connectionClose+1, nil)
		})
		conn, err := amqp.DialConfig(s.url(), amqp.Config{Dial: func(network, address string) (net.Conn, error) {
			c, err := net.Dial(network, address)
			if err != nil {
				return nil, err
			}
			return newWholeConn(c), nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		ch, err := conn.Channel()
		if err != nil {
			t.Fatal(err)
		}
		messages, err := ch.Consume("q", "c", true, false, false, false, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, ok := <-messages
		if !ok {
			t.Fatal("the library ends the connection")
		}
		if d.ContentType != "text/plain" || d.MessageId != "id" {
			t.Errorf("the message has the type %q and the id %q", d.ContentType, d.MessageId)
		}
		if _, marked := d.Headers[HeaderUnreadable]; marked == isReadable(fields) &&
			!bytes.Contains(fields, []byte(HeaderUnreadable)) {
			t.Errorf("marked %t", marked)
		}
		_ = conn.Close()
	})
}
