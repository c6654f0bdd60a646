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

// singles measures sets and cancels of one alarm a request.
func (r *run) singles(ctx context.Context, b *bed) error {
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	const s = series("single")
	n, at := r.cfg.Singles, farAhead(b.now())
	bare, err := serveBare(ctx)
	if err != nil {
		return err
	}
	defer bare.close()
	for _, step := range []struct {
		what string
		do   func(c *httpConn, n int) error
	}{
		{"PUT", func(c *httpConn, n int) error {
			body := append(s.appendBody([]byte{'{'}, n, at(n)), '}')
			return c.put(s.appendID(nil, n), body)
		}},
		{"DELETE", func(c *httpConn, n int) error { return c.cancel(s.appendID(nil, n)) }},
	} {
		r.progress.say("%s: %s requests", step.what, commas(int64(n)))
		took, spread, err := eachRequest(ctx, b.child.url, n, step.do)
		if err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		bareTook, bareSpread, err := eachRequest(ctx, bare.url, n, step.do)
		if err != nil {
			return fmt.Errorf("bare %s: %w", step.what, err)
		}
		const beside = "HTTP alone"
		what := fmt.Sprintf("%s, %d connections", step.what, singleConns)
		r.add(stageSingles,
			Figure{What: what, Unit: perSecond, Value: rate(n, took)}.beside(beside, rate(n, bareTook)),
			Figure{What: what + ", p50", Unit: millis, Value: ms(spread.P50)}.beside(beside, ms(bareSpread.P50)),
			Figure{What: what + ", p99", Unit: millis, Value: ms(spread.P99)}.beside(beside, ms(bareSpread.P99)),
		)
	}
	return nil
}

// eachRequest sends requests 0..n-1 over singleConns connections and returns how long all and each took.
func eachRequest(ctx context.Context, base string, n int, do func(c *httpConn, n int) error) (time.Duration, spread, error) {
	took := make([]time.Duration, n)
	var next atomic.Int64
	conns, ctx := errgroup.WithContext(ctx)
	begun := time.Now()
	for range singleConns {
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
				if err := do(c, i); err != nil {
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
