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
	singlesTarget    = 0.5 // of the same server without a store
	singlesP99Target = 25  // milliseconds
)

// singleStep is one kind of request, with what became of it in each round.
type singleStep struct {
	what string
	do   func(c *httpConn, n int) error

	service, face, bare requestRounds // face: the service's HTTP face alone, bare: net/http alone
}

// requestRounds is what one server did.
type requestRounds struct{ rates, p50, p99 samples }

// send sends a round's requests.
func (q *requestRounds) send(ctx context.Context, url string, from, n int, do func(c *httpConn, n int) error) error {
	took, spread, err := eachRequest(ctx, url, singleConns, from, n, do)
	if err != nil {
		return err
	}
	q.rates, q.p50, q.p99 = append(q.rates, rate(n, took)), append(q.p50, ms(spread.P50)), append(q.p99, ms(spread.P99))
	return nil
}

// singleSteps returns a PUT and the DELETE of the same alarms.
func singleSteps(s series, at func(n int) int64) []*singleStep {
	return []*singleStep{
		{what: "PUT", do: func(c *httpConn, n int) error {
			body := append(s.appendBody([]byte{'{'}, n, at(n)), '}')
			return c.put(s.appendID(nil, n), body)
		}},
		{what: "DELETE", do: func(c *httpConn, n int) error { return c.cancel(s.appendID(nil, n)) }},
	}
}

// singles measures sets and cancels of one alarm a request, beside the same server that stores nothing and a bare one.
func (r *run) singles(ctx context.Context, b *bed) (err error) {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	face, err := startHTTP(ctx, &r.cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, face.stop()) }()
	bare, err := serveBare(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	steps := singleSteps("single", farAhead(b.now()))
	if _, _, err := eachRequest(ctx, face.url, singleConns, 0, min(warmUps, r.cfg.Singles), steps[0].do); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	for round := range r.cfg.Rounds {
		for _, s := range steps {
			if err := r.singleRound(ctx, round, s, b.child.url, face.url, bare.url); err != nil {
				return fmt.Errorf("%s: %w", s.what, err)
			}
		}
	}
	for _, s := range steps {
		r.addSingles(s)
	}
	return nil
}

// singleRound sends a round's requests to each server. Figure and ceiling change places from round to round.
func (r *run) singleRound(ctx context.Context, round int, s *singleStep, service, face, bare string) error {
	n := max(r.cfg.Singles/r.cfg.Rounds, 1)
	r.progress.say("%s, round %d: %s requests", s.what, round+1, commas(int64(n)))
	turns := []func() error{
		func() error { return s.service.send(ctx, service, round*n, n, s.do) },
		func() error { return s.face.send(ctx, face, round*n, n, s.do) },
	}
	for i := range turns {
		if err := turns[(round+i)%len(turns)](); err != nil {
			return err
		}
	}
	return s.bare.send(ctx, bare, round*n, n, s.do)
}

func (r *run) addSingles(s *singleStep) {
	const face = "same server, nothing stored"
	what := fmt.Sprintf("%s, %d connections", s.what, singleConns)
	r.add(stageSingles,
		figureOf(what, perSecond, s.service.rates).besideAll(face, s.face.rates).ratioAtLeast(singlesTarget),
		figureOf(what, perSecond, s.service.rates).besideAll("net/http alone", s.bare.rates),
		figureOf(what+", p50", millis, s.service.p50).besideAll(face, s.face.p50),
		figureOf(what+", p99", millis, s.service.p99).besideAll(face, s.face.p99).atMost(singlesP99Target),
	)
}

// eachRequest sends requests from..from+n-1 over some connections and returns how long all and each took.
func eachRequest(ctx context.Context, base string, connections, from, n int, do func(c *httpConn, n int) error) (time.Duration, spread, error) {
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

// bareHTTP is a server that reads what clockd reads and stores nothing.
type bareHTTP struct {
	url    string
	server *http.Server
	done   chan struct{}
}

func serveBare(ctx context.Context) (*bareHTTP, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	b := &bareHTTP{
		url: "http://" + listener.Addr().String(), done: make(chan struct{}),
		server: &http.Server{Handler: http.HandlerFunc(answerBare), ReadHeaderTimeout: dialTimeout},
	}
	go func() {
		defer close(b.done)
		_ = b.server.Serve(listener) // ends by close
	}()
	return b, nil
}

func (b *bareHTTP) close() {
	_ = b.server.Close()
	<-b.done
}

// bareAlarm is what a set says, and an answer repeats.
type bareAlarm struct {
	Application string          `json:"application"`
	BusinessID  string          `json:"business_id"`
	State       string          `json:"state"`
	Generation  int             `json:"generation"`
	RingAt      int64           `json:"ring_at"`
	Payload     json.RawMessage `json:"payload"`
}

func answerBare(w http.ResponseWriter, req *http.Request) {
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
	answer, err := json.Marshal(a)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, err = w.Write(answer)
	if err != nil && !errors.Is(err, net.ErrClosed) {
		panic(http.ErrAbortHandler)
	}
}

// barePayload stands in an answer to a cancel, which does not bring one.
var barePayload = json.RawMessage(series("single").appendPayload(nil, 0))
