package main

import (
	"crypto/rand"

	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/front"
)

// identity identifies this process among the nodes.
type identity struct {
	incarnation  string              // random, so no other process ever has it
	address      string              // host:port on which HTTP is served
	certificates *front.Certificates // of the port; nil: it speaks plain HTTP
}

func newIdentity(port *clockhttp.Port) *identity {
	return &identity{incarnation: rand.Text(), address: port.Addr().String(), certificates: port.Certificates()}
}

func (i *identity) httpAddress() string { return i.address }

// url returns the URL on which HTTP is served.
func (i *identity) url() string {
	if i.certificates != nil {
		return "https://" + i.address
	}
	return "http://" + i.address
}
