package clock

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

func TestMessageIsUnpackedAsItWasPacked(t *testing.T) {
	long := strings.Repeat("n", maxMessageName)
	for _, m := range []Message{
		{Exchange: "orders", RoutingKey: "order.cancel", Properties: []byte{0x80, 0, 1, 'x'}, Body: []byte("body")},
		{Exchange: long, RoutingKey: long, Properties: []byte{}, Body: make([]byte, 1000)},
		{Properties: []byte{}, Body: []byte{}},
	} {
		packed, err := m.Pack()
		if err != nil {
			t.Fatal(err)
		}
		got, err := UnpackMessage(packed)
		if err != nil || !reflect.DeepEqual(*got, m) {
			t.Errorf("unpacked %+v, %v; want %+v", got, err, m)
		}
	}
	for _, m := range []Message{{Exchange: long + "n"}, {RoutingKey: long + "n"}} {
		if _, err := m.Pack(); err == nil {
			t.Error("a name of 256 bytes was packed")
		}
	}
}

func TestRingUnpacksItsMessage(t *testing.T) {
	packed, err := (&Message{Exchange: "orders", RoutingKey: "key", Body: []byte("body")}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var r Ring
	if err := r.SetPayload(MessagePayload, packed); err != nil {
		t.Fatal(err)
	}
	if r.Message == nil || r.Message.Exchange != "orders" || string(r.Payload) != "body" || r.PayloadKind != Binary {
		t.Errorf("ring has message %+v, payload %q of kind %d", r.Message, r.Payload, r.PayloadKind)
	}
	if err := r.SetPayload(MessagePayload, packed[:5]); err == nil {
		t.Error("a cut message was unpacked")
	}
	if err := r.SetPayload(Text, []byte("text")); err != nil || r.Message != nil || string(r.Payload) != "text" ||
		r.PayloadKind != Text {
		t.Errorf("ring has message %+v, payload %q of kind %d, err %v", r.Message, r.Payload, r.PayloadKind, err)
	}
}

// FuzzUnpackMessage: what can be unpacked is packed to the same bytes.
func FuzzUnpackMessage(f *testing.F) {
	for _, m := range []Message{{}, {Exchange: "e", RoutingKey: "k", Properties: []byte{0, 0}, Body: []byte("b")}} {
		packed, err := m.Pack()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(packed)
	}
	f.Add([]byte{1, 2, 'e'})
	f.Add([]byte{1, 0, 0, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, packed []byte) {
		m, err := UnpackMessage(packed)
		if err != nil {
			return
		}
		if again, err := m.Pack(); err != nil || !bytes.Equal(again, packed) {
			t.Errorf("packed again %x, %v; want %x", again, err, packed)
		}
	})
}
