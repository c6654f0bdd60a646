package httpcall

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
)

// ErrNotPublic is wrapped by the error of a connection that the guard refuses.
var ErrNotPublic = errors.New("the address is not public")

// Guard decides to which addresses connections may go. It checks each address at the moment of the connection, after
// the name was resolved, so a name that resolves differently later is checked too. Addresses that are not public are
// refused unless they are allowed.
type Guard struct {
	prefixes []netip.Prefix
	hosts    []string // lower case, without a trailing dot; a leading dot stands for all names below
}

// NewGuard returns a guard that also allows the given addresses and hosts. Each is an address ("10.1.2.3"), a range
// ("10.1.0.0/16", "fd00::/8"), a host name ("hooks.internal") or all names below one ("*.svc.internal"). An allowed
// name may resolve to any address.
func NewGuard(allow ...string) (*Guard, error) {
	g := &Guard{}
	for _, a := range allow {
		if err := g.allow(a); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (g *Guard) allow(a string) error {
	if prefix, err := netip.ParsePrefix(a); err == nil {
		if prefix != prefix.Masked() {
			return fmt.Errorf("allowed range %q has bits behind its prefix: write %s", a, prefix.Masked())
		}
		if prefix.Addr().Is4In6() {
			return fmt.Errorf("allowed range %q must be written as a range of IPv4", a)
		}
		g.prefixes = append(g.prefixes, prefix)
		return nil
	}
	if ip, err := netip.ParseAddr(a); err == nil && ip.Zone() == "" {
		ip = ip.Unmap()
		g.prefixes = append(g.prefixes, netip.PrefixFrom(ip, ip.BitLen()))
		return nil
	}
	name := strings.TrimPrefix(canonicalHost(a), "*")
	if !isHostName(strings.TrimPrefix(name, ".")) || strings.HasPrefix(name, ".") != strings.HasPrefix(a, "*.") {
		return fmt.Errorf("allowed address %q is neither an address, nor a range like 10.0.0.0/8, nor a host name", a)
	}
	g.hosts = append(g.hosts, name)
	return nil
}

// isHostName reports whether s is a name, with at least one letter in its last label. So it is no address and no part
// of one.
func isHostName(s string) bool {
	labels := strings.Split(s, ".")
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}) {
			return false
		}
	}
	return strings.ContainsFunc(labels[len(labels)-1], func(r rune) bool { return r >= 'a' && r <= 'z' })
}

// Check returns an error if a connection to the address, for the given host, is refused.
func (g *Guard) Check(host string, address netip.Addr) error {
	address = address.Unmap().WithZone("")
	contains := func(p netip.Prefix) bool { return p.Contains(address) }
	if isPublic(address) || slices.ContainsFunc(g.prefixes, contains) || g.allowsHost(canonicalHost(host)) {
		return nil
	}
	return fmt.Errorf("%w: %s; if clockd may call it, add %q to CLOCKD_WEBHOOK_ALLOW of every node", ErrNotPublic,
		address, host)
}

func (g *Guard) allowsHost(host string) bool {
	return slices.ContainsFunc(g.hosts, func(allowed string) bool {
		return host == allowed || strings.HasPrefix(allowed, ".") && strings.HasSuffix(host, allowed)
	})
}

// DialContext connects to an address of a host. It checks each resolved address right before the connection begins.
func (g *Guard) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	dialer := net.Dialer{Control: func(_, resolved string, _ syscall.RawConn) error {
		to, err := netip.ParseAddrPort(resolved)
		if err != nil {
			return fmt.Errorf("%w: %s", ErrNotPublic, resolved)
		}
		return g.Check(host, to.Addr())
	}}
	return dialer.DialContext(ctx, network, address)
}

// globalIPv6 are the addresses of IPv6 that are assigned for the public network. All others are refused: unspecified,
// loopback, link-local, unique local, multicast, IPv4-compatible, and the translation prefixes 64:ff9b::/96 and
// 64:ff9b:1::/48 (NAT64).
var globalIPv6 = netip.MustParsePrefix("2000::/3")

// special are the ranges of the IANA registries of special-purpose addresses that are not globally reachable, or that
// stand for an address of IPv4 which the receiving network decides about.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network, unspecified
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // shared address space (CGNAT)
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local, with the metadata services of clouds
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // IETF protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, broadcast
	netip.MustParsePrefix("2001::/23"),       // IETF protocol assignments: Teredo, benchmarks, ORCHID
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("3fff::/20"),       // documentation
}

// isPublic reports whether an address belongs to the public network. address is unmapped and has no zone.
func isPublic(address netip.Addr) bool {
	if !address.IsValid() || address.Is6() && !globalIPv6.Contains(address) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(address) })
}
