package main

import (
	"crypto/rand"

	"github.com/clockd/clockd/clock/clockhttp"
)

// identity identifies this process among the nodes.
type identity struct {
	incarnation string // random, so no other process ever has it
	address     string // host:port on which HTTP is served
}

func newIdentity(port *clockhttp.Port) *identity {
	return &identity{incarnation: rand.Text(), address: port.Addr().String()}
}

func (i *identity) httpAddress() string { return i.address }
