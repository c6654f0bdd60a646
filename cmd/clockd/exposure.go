package main

import (
	"fmt"
	"net/netip"
)

// exposure returns a warning if HTTP listens on more than loopback addresses, else "". The address is host:port, or "" before HTTP
// listens.
func exposure(address string) string {
	a, err := netip.ParseAddrPort(address)
	if err != nil || a.Addr().Unmap().IsLoopback() {
		return ""
	}
	return fmt.Sprintf("HTTP listens on %s, and clockd has no authentication: everyone who can reach this port can set, cancel and read every alarm. "+
		"Keep the port inside a trusted network, or listen on 127.0.0.1 behind a proxy that authenticates", address)
}
