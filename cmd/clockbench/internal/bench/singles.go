package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// Targets of single requests.
const (
	singlesTarget    = 0.5 // smallest allowed ratio to the same server without a store
	singlesP99Target = 25  // milliseconds
)

// singleStep is one kind of request, with its results in each round.
type singleStep struct {
	what string
	do   func(c *httpConn, n int) error

	service, httpOnly, bare requestRounds // httpOnly: the service's HTTP server without a store; bare: net/http alone
}

// requestRounds holds the results of one server in each round.
type requestRounds struct{ rates, p50, p99 samples }

// send sends the requests of one round.
func (q *requestRounds) send(ctx context.Context, url string, from, n int, do func(c *httpConn, n int) error) error {
	took, spread, err := eachRequest(ctx, url, singleConns, from, n, do)
	if err != nil {
		return err
	}
	q.rates, q.p50, q.p99 = append(q.rates, rate(n, took)), append(q.p50, ms(spread.P50)), append(q.p99, ms(spread.P99))
	return nil
}

// singleSteps returns a PUT and the DELETE of the same alarms.
func singleSteps(s series, dueAt func(n int) int64) []*singleStep {
	return []*singleStep{
		{what: "PUT", do: func(c *httpConn, n int) error {
			body := append(s.appendBody([]byte{'{'}, n, dueAt(n)), '}')
			return c.put(s.appendID(nil, n), body)
		}},
		{what: "DELETE", do: func(c *httpConn, n int) error { return c.cancel(s.appendID(nil, n)) }},
	}
}

// singles measures sets and cancels with one request for each alarm. The ceilings are the same HTTP server without a
// store, and net/http alone.
func (r *run) singles(ctx context.Context, b *testbed) (err error) {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	httpOnly, err := startHTTP(ctx, &r.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, httpOnly.stop()) }()
	bare, err := serveHTTP(ctx, http.HandlerFunc(respondBare))
	if err != nil {
		return err
	}
	defer bare.close()
	steps := singleSteps("single", farAhead(b.now()))
	if _, _, err := eachRequest(ctx, httpOnly.url, singleConns, 0, min(warmUps, r.cfg.Singles), steps[0].do); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for round := range r.cfg.Rounds {
		for _, s := range steps {
			if err := r.singleRound(ctx, round, s, b.child.url, httpOnly.url, bare.url); err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
		}
	}
	for _, s := range steps {
		r.addSingles(s)
	}
	return nil
}

// singleRound sends the requests of one round to each server. Figure and ceiling swap their order in each round.
func (r *run) singleRound(ctx context.Context, round int, s *singleStep, service, httpOnly, bare string) error {
	n := max(r.cfg.Singles/r.cfg.Rounds, 1)
	r.progress.say("%s, round %d: %s requests", s.what, round+1, commas(int64(n)))
	turns := []func() error{
		func() error { return s.service.send(ctx, service, round*n, n, s.do) },
		func() error { return s.httpOnly.send(ctx, httpOnly, round*n, n, s.do) },
	}
	for i := range turns {
		if err := turns[(round+i)%len(turns)](); err != nil {
			return err
		}
	}
	return s.bare.send(ctx, bare, round*n, n, s.do)
}

func (r *run) addSingles(s *singleStep) {
	const httpOnly = "same server, nothing stored"
	what := fmt.Sprintf("%s, %d connections", s.what, singleConns)
	r.add(stageSingles,
		figureOf(what, perSecond, s.service.rates).besideAll(httpOnly, s.httpOnly.rates).ratioAtLeast(singlesTarget),
		figureOf(what, perSecond, s.service.rates).besideAll("net/http alone", s.bare.rates),
		figureOf(what+", p50", millis, s.service.p50).besideAll(httpOnly, s.httpOnly.p50),
		figureOf(what+", p99", millis, s.service.p99).besideAll(httpOnly, s.httpOnly.p99).atMost(singlesP99Target),
	)
}

// eachRequest sends requests from..from+n-1 over concurrent connections. It returns the time for all requests, and the
// spread of single requests.
func eachRequest(
	ctx context.Context, base string, connections, from, n int, do func(c *httpConn, n int) error,
) (time.Duration, spread, error) {
	took := make([]time.Duration, n)
	var next atomic.Int64
	conns, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for range connections {
		conns.Go(func() error {
			c, err := dialHTTP(ctx, base)
			if err != nil {
				return err
			}
			defer c.close()
			for {
				i := int(next.Add(1)) - 1
				if i >= n || ctx.Err() != nil {
					return ctx.Err()
				}
				sent := time.Now()
				if err := do(c, from+i); err != nil {
					return err
				}
				took[i] = time.Since(sent)
			}
		})
	}
	err := conns.Wait()
	return time.Since(begun), spreadOf(took), err
}

// localHTTP is a net/http server of the bench.
type localHTTP struct {
	url    string
	server *http.Server
	done   chan struct{} // closed when the server has ended
}

func serveHTTP(ctx context.Context, handler http.Handler) (*localHTTP, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &localHTTP{
		url: "http://" + listener.Addr().String(), done: make(chan struct{}),
		server: &http.Server{Handler: handler, ReadHeaderTimeout: dialTimeout},
	}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(listener) // close ends it
	}()
	return b, nil
}

func (b *localHTTP) close() {
	_ = b.server.Close()
	<-b.done
}

// bareAlarm is the JSON of a set and of its response.
type bareAlarm struct {
	Application string          `json:"application"`
	BusinessID  string          `json:"business_id"`
	State       string          `json:"state"`
	Generation  int             `json:"generation"`
	RingAt      int64           `json:"ring_at"`
	Payload     json.RawMessage `json:"payload"`
}

// respondBare reads the same JSON as clockd, and stores nothing.
func respondBare(w http.ResponseWriter, req *http.Request) {
	a := bareAlarm{Application: application, BusinessID: req.URL.Path, State: "scheduled", Generation: 1}
	status := http.StatusOK
	if req.Method == http.MethodPut {
		status = http.StatusCreated
		if err := json.NewDecoder(req.Body).Decode(&a); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	} else {
		a.Payload = barePayload
	}
	response, err := json.Marshal(a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(response)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		panic(http.ErrAbortHandler)
	}
}

// barePayload is the payload in the response to a cancel, whose request has none.
var barePayload = json.RawMessage(series("single").appendPayload(nil, 0))
