package front

import (
	"net/netip"
	"testing"
)

// TestAddressesOfOneHostShareOneLimit uses several addresses of one IPv6 /64, and both forms of one IPv4 address.
func TestAddressesOfOneHostShareOneLimit(t *testing.T) {
	t.Parallel()
	l := &listener{maxOpen: 10, maxPerHost: 1, openByHost: map[netip.Addr]int{}}
	for _, c := range []struct {
		address string
		admit   bool
	}{
		{"10.0.0.1", true}, {"10.0.0.1", false}, {"::ffff:10.0.0.1", false}, {"10.0.0.2", true},
		{"2001:db8::1", true}, {"2001:db8::2", false}, {"2001:db8:0:1::1", true},
	} {
		if got := l.admit(hostOf(netip.MustParseAddr(c.address))); got != c.admit {
			t.Errorf("%s: admitted %v", c.address, got)
		}
	}
	l.leave(hostOf(netip.MustParseAddr("10.0.0.1")))
	if !l.admit(netip.MustParseAddr("10.0.0.1")) || l.open != 4 || len(l.openByHost) != 4 {
		t.Errorf("after one left: %d open of %d hosts", l.open, len(l.openByHost))
	}
}
