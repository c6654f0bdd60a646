package httpcall

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
)

// AddressOf returns the host and port of an http or https URL, in the one form in which addresses are compared.
func AddressOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	default:
		port = "80"
	}
	return joinHostPort(canonicalHost(u.Hostname()), port)
}

// canonicalAddress returns the address as AddressOf writes it.
func canonicalAddress(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	return joinHostPort(canonicalHost(host), port)
}

// canonicalHost returns a host name in the form in which names are compared.
func canonicalHost(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// joinHostPort joins a host and a port. Addresses of IPv6 get their one short form.
func joinHostPort(host, port string) string {
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		host = ip.String()
	}
	return net.JoinHostPort(host, port)
}
