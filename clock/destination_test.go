package clock_test

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// What ParseTarget takes, TargetText returns, and a receiver has its application and number again.
func FuzzParseTarget(f *testing.F) {
	for _, text := range []string{"webhook", "webhook/refunds", "amqp/", "stream/a", "/a", "kafka/a/b", "grpc/" + strings.Repeat("x", 65)} {
		f.Add(text, 3)
	}
	f.Fuzz(func(t *testing.T, text string, number int) {
		kind, destination, err := clock.ParseTarget(text)
		if err == nil && (clock.TargetText(kind, destination) != text || kind == clock.NoTarget) {
			t.Errorf("%q is read as %v and %q", text, kind, destination)
		}
		if err == nil && destination != "" && clock.ValidateApplication(destination) != nil {
			t.Errorf("%q is taken as a name", destination)
		}
		if number < 0 {
			return
		}
		if application, n := clock.SplitReceiver(clock.ReceiverOf("shop", number)); application != "shop" || n != number {
			t.Errorf("number %d is read as %s and %d", number, application, n)
		}
	})
}

// A text that ReceiverOf does not return is no receiver of an application.
func TestOtherTextsAreNoReceivers(t *testing.T) {
	for _, text := range []string{"shop/", "shop/0", "shop/-1", "shop/x", "shop/1/2"} {
		if _, n := clock.SplitReceiver(text); n != -1 {
			t.Errorf("%s has the destination %d", text, n)
		}
	}
}
