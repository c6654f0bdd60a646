package webhook

import (
	"io"
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/targettest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	targettest.Run(t,
		targettest.Engine{Open: openConformance, Refused: clock.Nacked, Absent: clock.Unsent, KnowsReceivers: true, Destinations: true})
}

// conformanceBench is a target whose receivers are HTTP servers.
type conformanceBench struct {
	*bench
	reply func() // ends the wait of Late receivers
	wait  chan struct{}

	mu       sync.Mutex
	received map[string][]targettest.Received
}

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	b := &conformanceBench{bench: openTarget(t), wait: make(chan struct{}),
		received: map[string][]targettest.Received{}}
	b.reply = sync.OnceFunc(func() { close(b.wait) })
	return b
}

func (b *conformanceBench) Target() ring.Target { return b.bench.Target }
func (b *conformanceBench) Reply()              { b.reply() }

func (b *conformanceBench) Receive(application string, how targettest.Behaviour) {
	b.serve(application, func(w http.ResponseWriter, r *http.Request) {
		if how == targettest.Refusing {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		body, _ := io.ReadAll(r.Body)
		id, _ := url.PathUnescape(r.Header.Get("X-Clockd-Business-Id"))
		b.mu.Lock()
		b.received[application] = append(b.received[application], targettest.Received{
			MessageID: r.Header.Get(headerID), BusinessID: id, ContentType: r.Header.Get("Content-Type"),
			Payload: string(body),
		})
		b.mu.Unlock()
		if how == targettest.Late {
			select {
			case <-b.wait:
			case <-r.Context().Done():
			}
		}
	}, func(e *Endpoint) { e.Concurrency = 64 })
	b.EndpointsChanged()
}

func (b *conformanceBench) Received(application string) []targettest.Received {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]targettest.Received(nil), b.received[application]...)
}
