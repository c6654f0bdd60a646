package wire

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Host is one host of the broker's cluster. It does not change.
type Host struct {
	url string   // URL with this host alone; it may contain a password
	uri amqp.URI // parts of url
}

// Name returns host and port.
func (h *Host) Name() string { return net.JoinHostPort(h.uri.Host, strconv.Itoa(h.uri.Port)) }

// VHost returns the virtual host.
func (h *Host) VHost() string { return h.uri.Vhost }

// address returns the URL without user, password and parameters.
func (h *Host) address() string { return Address([]*Host{h}) }

// Address returns the URL of the hosts, without user, password and parameters.
func Address(hosts []*Host) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.Name())
	}
	uri := hosts[0].uri
	return fmt.Sprintf("%s://%s/%s", uri.Scheme, strings.Join(names, ","), vhostPath(uri.Vhost))
}

// hostTurn decides which host of the cluster is dialled next. The roles of a session share it, so a host that one
// connection has left is not the first choice of the others either. Any goroutine may call its methods.
type hostTurn struct {
	hosts []*Host // at least one, in the order of the URL

	mu               sync.Mutex
	current          int              // index of the host that the next dial tries first
	lastHost         map[string]*Host // by role, not by lane: host of the last opened connection; no entry: the last dial reached no host, or one is under way
	leftUnconfirming time.Time        // last time at which leaveUnconfirming left a host; zero: never
}

// UnconfirmingInterval is the shortest time between two calls of leaveUnconfirming that leave a host. A queue that
// confirms on no host makes lanes leave each host, so the interval bounds how fast they go round the hosts.
const UnconfirmingInterval = 10 * time.Second

func newHostTurn(hosts []*Host) *hostTurn {
	return &hostTurn{hosts: hosts, lastHost: map[string]*Host{}}
}

// inTurn returns all hosts in the order in which a dial tries them: first the current host, then those after it in the
// URL, then those before it.
func (t *hostTurn) inTurn() []*Host {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append(t.hosts[t.current:len(t.hosts):len(t.hosts)], t.hosts[:t.current]...)
}

// leave makes the host after h the current one. If h is not the current host, another connection has left it already,
// and leave does nothing.
func (t *hostTurn) leave(h *Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hosts[t.current] == h {
		t.current = (t.current + 1) % len(t.hosts)
	}
}

// leaveUnconfirming is leave for a host that serves connections, but does not take or does not confirm the rings of a
// delivery. It does nothing within UnconfirmingInterval after the last such leave. It reports whether the current host
// has changed.
func (t *hostTurn) leaveUnconfirming(h *Host) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.hosts) == 1 || t.hosts[t.current] != h ||
		!t.leftUnconfirming.IsZero() && time.Since(t.leftUnconfirming) < UnconfirmingInterval {
		return false
	}
	t.leftUnconfirming, t.current = time.Now(), (t.current+1)%len(t.hosts)
	return true
}

// use records the host of a role's connection. nil: the role is dialling.
func (t *hostTurn) use(role string, h *Host) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h == nil {
		delete(t.lastHost, role)
	} else {
		t.lastHost[role] = h
	}
}

// used returns the host of the role's last connection, nil if the last dial reached no host or is under way.
func (t *hostTurn) used(role string) *Host {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.lastHost[role]
}

// addressFor returns the address of the host that the role used last, or of all hosts.
func (t *hostTurn) addressFor(role string) string {
	if h := t.used(role); h != nil {
		return h.address()
	}
	return Address(t.hosts)
}

// reason returns the text of an error that ended the role's connection. With several hosts the text names the host. The
// error of a dial names its hosts itself.
func (t *hostTurn) reason(role string, err error) string {
	if h := t.used(role); h != nil && len(t.hosts) > 1 {
		return h.Name() + ": " + err.Error()
	}
	return err.Error()
}

// connectShare returns the longest time for the TCP connect to the first of the hosts left to try. It is an even share
// of the time until the deadline of ctx. Only the TCP connect has a share: after it, a slow healthy host has all the
// time that is left.
func connectShare(ctx context.Context, hosts int) time.Duration {
	deadline, _ := ctx.Deadline()
	return time.Until(deadline) / time.Duration(hosts)
}

// dialErrors holds the error of each host that a dial has tried, in the order of the URL.
type dialErrors []error

func (e dialErrors) Error() string {
	var texts []string
	for _, err := range e {
		texts = append(texts, err.Error())
	}
	return strings.Join(texts, "; ")
}

func (e dialErrors) Unwrap() []error { return e }
