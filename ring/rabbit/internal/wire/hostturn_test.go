package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// FuzzURL checks that a URL with one host means what the library reads, that several hosts share all other parts of the
// URL, and that no error quotes the URL.
func FuzzURL(f *testing.F) {
	for _, seed := range []string{
		"amqp://u:p@h", "amqp://u:p@h1:1,h2:2,h3/shop", "amqps://h1,h2?heartbeat=5", "amqp://a,b:c,d@h1,h2/a%2Cb",
		"amqp://[::1]:7,h", "amqp:///",
		"amqp://u:1,2/x@h1,h2", "amqp://h1,u:p@h2@h3", "amqp://h1:x,h2", "amqp://,", "amqp:h1,h2", "amqp://u:p@h?x=1,2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		hosts, err := ParseURL(raw)
		if err != nil {
			if len(raw) > 8 && strings.Contains(err.Error(), raw) && !strings.Contains(errURL.Error(), raw) {
				t.Errorf("the error quotes the URL: %v", err)
			}
			return
		}
		var names []string
		for _, h := range hosts {
			if names = append(names, h.Name()); len(hosts) > 1 && strings.HasPrefix(h.Name(), ":") {
				t.Errorf("host %q has no name", h.Name())
			}
			uri := h.uri
			uri.Host, uri.Port = hosts[0].uri.Host, hosts[0].uri.Port
			if fmt.Sprint(uri) != fmt.Sprint(hosts[0].uri) {
				t.Errorf("the hosts have different settings: %s", names)
			}
		}
		if slices.Sort(names); len(slices.Compact(names)) != len(hosts) {
			t.Errorf("a host is named twice: %s", names)
		}
		if uri, err := amqp.ParseURI(raw); err == nil && len(hosts) == 1 &&
			fmt.Sprint(uri) != fmt.Sprint(hosts[0].uri) {
			t.Errorf("the library reads other settings from a URL with one host: %s", names)
		}
	})
}

func TestHostIsLeftOnce(t *testing.T) {
	t.Parallel()
	hosts, err := ParseURL("amqp://h1,h2,h3")
	if err != nil {
		t.Fatal(err)
	}
	turn := newHostTurn(hosts)
	inTurn := func(want ...string) {
		t.Helper()
		var got []string
		for _, h := range turn.inTurn() {
			got = append(got, h.uri.Host)
		}
		if !slices.Equal(got, want) {
			t.Errorf("hosts in turn %s, want %s", got, want)
		}
	}
	inTurn("h1", "h2", "h3")
	turn.leave(hosts[0])
	inTurn("h2", "h3", "h1")
	turn.leave(hosts[0]) // another connection finds the same fault
	inTurn("h2", "h3", "h1")
	turn.leave(hosts[1])
	turn.leave(hosts[2])
	inTurn("h1", "h2", "h3")
}

// A queue may confirm on no host. Then the deliveries to it leave a host at most once in UnconfirmingInterval.
func TestHostsAreLeftForMissingConfirmsOneAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hosts, err := ParseURL("amqp://h1,h2,h3")
		if err != nil {
			t.Fatal(err)
		}
		turn := newHostTurn(hosts)
		for _, step := range []struct {
			wait time.Duration
			host int
			left bool
		}{
			{0, 1, false}, // not the current host
			{0, 0, true},
			{0, 0, false}, // left already
			{UnconfirmingInterval - 1, 1, false},
			{1, 1, true},
			{UnconfirmingInterval, 2, true},
			{UnconfirmingInterval - 1, 0, false},
		} {
			time.Sleep(step.wait)
			if left := turn.leaveUnconfirming(hosts[step.host]); left != step.left {
				t.Errorf("after %s: %s left %t, want %t", step.wait, hosts[step.host].Name(), left, step.left)
			}
		}
	})
}
