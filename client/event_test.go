package client

import (
	"bytes"
	"strings"
	"testing"
)

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
