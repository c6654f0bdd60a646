package wire

import (
	"bytes"
	"encoding/binary"
	"net"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/clockd/clockd/ring/rabbit/internal/scripted"
)

// rawArray returns a field with an array of n bits.
func rawArray(name string, n int) []byte {
	b := append(scripted.ShortText(nil, name), 'A')
	b = binary.BigEndian.AppendUint32(b, uint32(2*n))
	return append(b, bytes.Repeat([]byte{'t', 1}, n)...)
}

// rawNested returns a field with depth tables in each other.
func rawNested(name string, depth int) []byte {
	inner := append(scripted.ShortText(nil, name), 'V')
	for range depth {
		outer := append(scripted.ShortText(nil, name), 'F')
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
		{"an unknown type", append(scripted.ShortText(nil, "u"), '?'), false},
		{"a cut name", []byte{5, 'a'}, false},
		{"a cut value", append(scripted.ShortText(nil, "c"), 'l', 0), false},
		{"an array that is longer than its table", append(scripted.ShortText(nil, "a"), 'A', 0, 0, 0, 9, 't', 1), false},
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
		b = append(scripted.ShortText(b, "of"+value[:1]), value...)
	}
	return b
}

// headerFrame returns a content header frame with these fields of its headers, and with the other properties on both
// sides of them.
func headerFrame(channel uint16, fields []byte) []byte {
	p := append([]byte{0, scripted.ClassOfBasic, 0, 0}, make([]byte, 8)...)
	p = binary.BigEndian.AppendUint16(p, FlagContentType|FlagHeaders|FlagMessageID)
	p = append(binary.BigEndian.AppendUint32(scripted.ShortText(p, "text/plain"), uint32(len(fields))), fields...)
	return scripted.Encode(scripted.FrameOf(scripted.KindHeader, channel, scripted.ShortText(p, "id")))
}

// Whatever the headers of a message are: the library reads the message that the connection passes on, and its other
// properties are the message's own.
func FuzzLibraryReadsTheHeaders(f *testing.F) {
	for _, fields := range [][]byte{
		nil, everyField(), rawNested("d", 31), rawNested("d", 61), rawArray("w", 9000),
		append(scripted.ShortText(nil, "u"), '?'), {5, 'a'},
		append(scripted.ShortText(nil, "a"), 'A', 0, 0, 0, 9, 't', 1), bytes.Repeat([]byte("\x01aV"), 8193),
	} {
		f.Add(fields)
	}
	f.Fuzz(func(t *testing.T, fields []byte) {
		s := scripted.Start(t, 0, func(s *scripted.Broker) {
			channel := s.Until(scripted.ChannelOpen).Channel
			s.SendMethod(channel, scripted.ChannelOpenOk, make([]byte, 4))
			const consume, consumeOk, deliver = scripted.ClassOfBasic<<16 | 20, scripted.ClassOfBasic<<16 | 21, scripted.ClassOfBasic<<16 | 60
			s.Until(consume)
			s.SendMethod(channel, consumeOk, scripted.ShortText(nil, "c"))
			args := append(scripted.ShortText(nil, "c"), 0, 0, 0, 0, 0, 0, 0, 1, 0)
			s.SendMethod(channel, deliver, scripted.ShortText(scripted.ShortText(args, ""), "q"))
			s.Write(headerFrame(channel, fields))
			s.Until(scripted.ConnectionClose)
			s.SendMethod(0, scripted.ConnectionClose+1, nil)
		})
		conn, err := amqp.DialConfig(s.URL(), amqp.Config{Dial: func(network, address string) (net.Conn, error) {
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
