package httpcall

import (
	"context"
	"errors"
	"net/netip"
	"testing"
)

func TestGuardRefusesAddressesThatAreNotPublic(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{
		"0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.127.255.255", "127.0.0.1",
		"127.255.255.254", "169.254.169.254",
		"172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
		"198.19.255.255", "198.51.100.1",
		"203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
		"::ffff:0:127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:7f00:1::", "2001:2::1",
		"2001:10::1", "2001:20::1", "2001:db8::1",
		"2002:7f00:1::1", "2002:808:808::1", "3fff::1", "5f00::1", "fc00::1", "fd00::1", "fdff:ffff::1", "fe80::1",
		"fe80::1%eth0", "fec0::1", "ff02::1", "4000::1",
	} {
		if err := g.Check("shop.example", netip.MustParseAddr(address)); !errors.Is(err, ErrNotPublic) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := g.Check("shop.example", netip.Addr{}); !errors.Is(err, ErrNotPublic) {
		t.Errorf("no address: %v", err)
	}
	for _, address := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255",
		"128.0.0.1", "169.253.255.255", "172.15.255.255",
		"172.32.0.0", "192.0.1.1", "192.167.255.255", "198.17.255.255", "198.20.0.0", "223.255.255.255",
		"::ffff:8.8.8.8", "2001:200::1", "2001:4860:4860::8888",
		"2003::1", "2606:4700::1111", "2a00::1", "3ffe::1",
	} {
		if err := g.Check("shop.example", netip.MustParseAddr(address)); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestAllowedAddressesAndHostsMayBeReached(t *testing.T) {
	g, err := NewGuard("10.1.0.0/16", "192.168.1.7", "::ffff:192.168.1.8", "fd00::/8", "Hooks.Internal.",
		"*.svc.internal")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		host, address string
		ok            bool
	}{
		{"a", "10.1.2.3", true},
		{"a", "::ffff:10.1.2.3", true},
		{"a", "10.2.0.1", false},
		{"a", "192.168.1.7", true},
		{"a", "192.168.1.8", true},
		{"a", "192.168.1.9", false},
		{"a", "fd12::1", true},
		{"a", "fe80::1", false},
		{"hooks.internal", "127.0.0.1", true},
		{"HOOKS.internal.", "127.0.0.1", true},
		{"xhooks.internal", "127.0.0.1", false},
		{"a.hooks.internal", "127.0.0.1", false},
		{"a.svc.internal", "127.0.0.1", true},
		{"a.b.svc.internal", "127.0.0.1", true},
		{"svc.internal", "127.0.0.1", false},
		{"asvc.internal", "127.0.0.1", false},
	} {
		if err := g.Check(c.host, netip.MustParseAddr(c.address)); (err == nil) != c.ok {
			t.Errorf("%s at %s: %v", c.host, c.address, err)
		}
	}
	for _, wrong := range []string{
		"", ".", "*", "*.", ".a", "10.1.2.3/16", "10.1.2.3/33", "::ffff:10.0.0.0/104", "fe80::1%eth0", "a b", "a..b",
		"127.1", "0x7f.1", "a/8", "*.*.a", "a.*", "1", "10.0.0",
	} {
		if _, err := NewGuard(wrong); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}

// A name that resolves to a public address at first and to a private one later is checked at each connection.
func TestGuardChecksEachConnection(t *testing.T) {
	g, err := NewGuard()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := g.DialContext(context.Background(), "tcp", "localhost:1"); !errors.Is(err, ErrNotPublic) {
			t.Errorf("got %v", err)
		}
	}
	if _, err := g.DialContext(context.Background(), "tcp", "no port"); err == nil {
		t.Error("an address without a port is accepted")
	}
}
