package client

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestEventsAreReadAsTheSpecificationSays(t *testing.T) {
	t.Parallel()
	text := ": comment\n\nid: 0\n\nevent: ring\nid: 1\ndata: {\"a\":\ndata:1}\n\nevent:other\r\ndata:  x\r\n\r\nevent: ring\n\ndata: y\nretry: 5\nnonsense\n\nid: a\x00b\n\nevent: ring\nid: 2\ndata: cut"
	r := newEventReader(strings.NewReader(text))
	for _, want := range []string{"0  ", "1 ring {\"a\":\n1}", "1 other  x", "1  y"} {
		e, err := r.next()
		if got := e.id + " " + e.kind + " " + string(e.data); got != want || err != nil {
			t.Errorf("got %q, %v, want %q", got, err, want)
		}
	}
	if e, err := r.next(); !errors.Is(err, io.EOF) {
		t.Errorf("half an event is %+v, %v", e, err)
	}
}

func TestEventIsBounded(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"data: " + strings.Repeat("x", responseBytes) + "\n", strings.Repeat("data: "+strings.Repeat("x", 1<<20)+"\n", 17)} {
		if e, err := newEventReader(strings.NewReader(line + "\n")).next(); err == nil {
			t.Errorf("an event of %d bytes was read", len(e.data))
		}
	}
}

// FuzzEvents reads streams that a proxy may have changed. Data with line breaks comes from several lines.
func FuzzEvents(f *testing.F) {
	f.Add([]byte("event: ring\nid: 1.1.1\ndata: {\"message_id\":\"1.1.1\",\"business_id\":\"x\",\"ack_timeout\":\"1m\",\"payload\":[1]}\n\n"))
	f.Add([]byte(":\n\ndata\ndata:\n\nevent\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		r := newEventReader(bytes.NewReader(stream))
		for range len(stream) + 1 {
			e, err := r.next()
			if err != nil {
				return
			}
			var ring Ring
			if ring.UnmarshalJSON(e.data) == nil && (ring.MessageID == "" || ring.BusinessID == "") {
				t.Errorf("%q is the ring %+v", e.data, ring)
			}
		}
		t.Error("more events than bytes")
	})
}
