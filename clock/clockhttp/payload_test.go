package clockhttp

import (
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestMessageIsShownWithItsDestinationAndBody(t *testing.T) {
	t.Parallel()
	packed, err := (&clock.Message{Exchange: "orders", RoutingKey: `a"b`, Properties: []byte{0, 0},
		Body: []byte{0xff}}).Pack()
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"state":1,"message":{"exchange":"orders","routing_key":"a\"b"},"base64":"/w=="`
	if got := string(appendPayload([]byte(`{"state":1`), clock.MessagePayload, packed)); got != want {
		t.Errorf("shown as %s, want %s", got, want)
	}
	if got := string(appendPayload(nil, clock.MessagePayload, packed[:3])); got != "" {
		t.Errorf("a message that cannot be unpacked is shown as %s", got)
	}
}
