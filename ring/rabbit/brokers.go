package rabbit

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

// brokerHost is one host of the broker's cluster. It does not change.
type brokerHost struct {
	url string   // URL with this host alone; it may contain a password
	uri amqp.URI // parts of url
}

// name returns host and port.
func (h *brokerHost) name() string { return net.JoinHostPort(h.uri.Host, strconv.Itoa(h.uri.Port)) }

// address returns the URL without user, password and parameters.
func (h *brokerHost) address() string { return address([]*brokerHost{h}) }

// address returns the URL of the hosts, without user, password and parameters.
func address(hosts []*brokerHost) string {
	var names []string
	for _, h := range hosts {
		names = append(names, h.name())
	}
	uri := hosts[0].uri
	return fmt.Sprintf("%s://%s/%s", uri.Scheme, strings.Join(names, ","), vhostPath(uri.Vhost))
}

// brokers decides which host of the cluster is dialled next. The roles of a session share it, so a host that one connection has left is not
// the first choice of the others either. Any goroutine may call its methods.
type brokers struct {
	hosts []*brokerHost // at least one, in the order of the URL

	mu      sync.Mutex
	current int                    // index of the host that the next dial tries first
	inUse   map[string]*brokerHost // by role: host of the last opened connection; without an entry the last dial reached no host
}

func newBrokers(hosts []*brokerHost) *brokers {
	return &brokers{hosts: hosts, inUse: map[string]*brokerHost{}}
}

// inTurn returns all hosts in the order in which a dial tries them: first the current host, then those after it in the URL, then those before
// it.
func (b *brokers) inTurn() []*brokerHost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append(b.hosts[b.current:len(b.hosts):len(b.hosts)], b.hosts[:b.current]...)
}

// leave makes the host after h the current one. If h is not the current host, another connection has left it already, and leave does nothing.
func (b *brokers) leave(h *brokerHost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.hosts[b.current] == h {
		b.current = (b.current + 1) % len(b.hosts)
	}
}

// use records the host of a role's connection. nil: the role is dialling.
func (b *brokers) use(role string, h *brokerHost) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if h == nil {
		delete(b.inUse, role)
	} else {
		b.inUse[role] = h
	}
}

// used returns the host of the role's last connection, nil if the last dial reached no host.
func (b *brokers) used(role string) *brokerHost {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inUse[role]
}

// addressFor returns the address of the host that the role used last, or of all hosts.
func (b *brokers) addressFor(role string) string {
	if h := b.used(role); h != nil {
		return h.address()
	}
	return address(b.hosts)
}

// reason returns the text of an error that ended the role's connection. With several hosts the text names the host. The error of a dial
// names its hosts itself.
func (b *brokers) reason(role string, err error) string {
	if h := b.used(role); h != nil && len(b.hosts) > 1 {
		return h.name() + ": " + err.Error()
	}
	return err.Error()
}

// connectShare returns the longest time for the TCP connect to the first of the hosts left to try. It is an even share of the time until
// the deadline of ctx. Only the TCP connect has a share: after it, a slow healthy host has all the time that is left.
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
