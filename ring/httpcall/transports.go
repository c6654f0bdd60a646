package httpcall

import "sync"

// firstWindow is the flow-control window of a new HTTP/2 connection for all its requests together (RFC 9113, 6.9.2). A
// receiver may widen it, and may not narrow it.
const firstWindow = 65_535

// transports are the HTTP clients of a target. With HTTP/2 all requests of a client to one host share a connection and
// its window: bodies that a receiver does not read use it up, and then no other body leaves. So the bodies that are
// under way to a host over one client are never larger together than the first window, or there is only one. The
// requests that find no room go over the next client, which has a connection of its own.
type transports struct {
	create func() Transport

	mu     sync.Mutex
	all    []Transport
	bodies map[string][]int // bytes of the bodies under way, by host and port and by transport; no bodies: no entry
}

// passage is the place of a request in a transport.
type passage struct {
	transport Transport
	address   string
	number    int // of the transport
	size      int // bytes of the body
}

// take returns the place of a request with a body of size bytes. The caller gives it back with free.
func (ts *transports) take(address string, size int) passage {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	bodies := ts.bodies[address]
	n := 0
	for n < len(bodies) && size > 0 && bodies[n] > 0 && bodies[n]+size > firstWindow {
		n++
	}
	if n == len(bodies) {
		bodies = append(bodies, 0)
	}
	if n == len(ts.all) {
		ts.all = append(ts.all, ts.create())
	}
	bodies[n] += size
	ts.bodies[address] = bodies
	return passage{transport: ts.all[n], address: address, number: n, size: size}
}

// free gives a place back.
func (ts *transports) free(p passage) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	bodies := ts.bodies[p.address]
	if p.number < len(bodies) {
		bodies[p.number] -= p.size
	}
	for len(bodies) > 0 && bodies[len(bodies)-1] == 0 {
		bodies = bodies[:len(bodies)-1]
	}
	if ts.bodies[p.address] = bodies; len(bodies) == 0 {
		delete(ts.bodies, p.address)
	}
}

// close closes the connections that no request uses.
func (ts *transports) close() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for _, t := range ts.all {
		t.CloseIdleConnections()
	}
}
