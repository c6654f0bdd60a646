package main

import (
	"crypto/rand"
	"net"
	"sync/atomic"
)

// identity identifies this process among the nodes.
type identity struct {
	incarnation string                 // random, so no other process ever has it
	address     atomic.Pointer[string] // host:port of HTTP; nil before HTTP listens
}

func newIdentity() *identity { return &identity{incarnation: rand.Text()} }

// listensOn stores the address on which HTTP is served.
func (i *identity) listensOn(a net.Addr) {
	s := a.String()
	i.address.Store(&s)
}

// httpAddress returns the address on which HTTP is served, "" before HTTP listens.
func (i *identity) httpAddress() string {
	if s := i.address.Load(); s != nil {
		return *s
	}
	return ""
}
