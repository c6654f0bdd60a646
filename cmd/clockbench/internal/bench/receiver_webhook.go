package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// webhooks receives rings as HTTP requests.
type webhooks struct {
	tallyHolder
	http *localHTTP
}

var _ server = (*webhooks)(nil)

// newWebhooks starts a server.
func newWebhooks(ctx context.Context, _ *Config) (server, error) {
	w := &webhooks{}
	var err error
	if w.http, err = serveHTTP(ctx, w); err != nil {
		return nil, err
	}
	return w, nil
}

// ServeHTTP takes a ring.
func (w *webhooks) ServeHTTP(response http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		response.WriteHeader(http.StatusBadRequest)
		return
	}
	rungAt, _ := strconv.ParseInt(req.Header.Get(headerRungAt), 10, 64) // 0 is no time
	w.take(&ring{
		messageID: []byte(req.Header.Get("Webhook-Id")), businessID: []byte(req.Header.Get(headerBusinessID)),
		payload: body, rungAt: rungAt, at: time.Now(),
	})
	response.WriteHeader(http.StatusNoContent)
}

// Settings returns the endpoint.
func (w *webhooks) Settings() []string {
	return []string{"--target=webhook", "--webhook-url=" + w.http.url,
		fmt.Sprintf("--webhook=concurrency=%d", receiverConcurrency)}
}

// Environment allows the endpoint's address.
func (w *webhooks) Environment() []string { return []string{"CLOCKD_WEBHOOK_ALLOW=127.0.0.1"} }

// Consume takes rings into the tally.
func (w *webhooks) Consume(_ context.Context, _ string, t *tally) (*consumer, error) {
	return w.consume(t), nil
}

// Close ends the server.
func (w *webhooks) Close() error {
	w.http.close()
	return nil
}

// Sender returns a client of net/http with the same headers as clockd's requests.
func (w *webhooks) Sender(ctx context.Context, table bareTable) (*bareRinger, error) {
	transport := &http.Transport{MaxConnsPerHost: receiverConcurrency, MaxIdleConnsPerHost: receiverConcurrency}
	sending := &http.Client{Transport: transport}
	send := func(r *bareRing) error { return w.send(ctx, sending, r) }
	return sendEach(table, send, transport.CloseIdleConnections), nil
}

// send sends one ring.
func (w *webhooks) send(ctx context.Context, sending *http.Client, r *bareRing) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.http.url, bytes.NewReader(r.payload))
	if err != nil {
		return err
	}
	setRing(req.Header.Set, r)
	req.Header.Set("Content-Type", contentType)
	req.Header.Set("Webhook-Id", r.messageID())
	req.Header.Set("Webhook-Timestamp", strconv.FormatInt(r.rungAt/1000, 10))
	req.Header.Set("Webhook-Signature", "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4=") // nothing is signed
	res, err := sending.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(expect(res.StatusCode, err, http.StatusNoContent), res.Body.Close())
}

// Headers of a ring that the receivers read.
const (
	headerBusinessID = "X-Clockd-Business-Id"
	headerRungAt     = "X-Clockd-Rung-At"
)

// setRing sets the headers of a ring, as clockd does in webhooks and in calls of gRPC.
func setRing(set func(name, value string), r *bareRing) {
	number := func(name string, n int64) { set(name, strconv.FormatInt(n, 10)) }
	set("X-Clockd-Application", application)
	set(headerBusinessID, r.businessID)
	number("X-Clockd-Generation", r.generation)
	number("X-Clockd-Ring-No", int64(r.ringNo))
	number("X-Clockd-Target-Ring-At", r.ringAt)
	number(headerRungAt, r.rungAt)
	number("X-Clockd-Retry-Times", int64(r.retryTimes))
	set("X-Clockd-Claim-Id", r.claimID)
}

// sendEach returns a ringer that sends each ring by itself, up to receiverConcurrency at once.
func sendEach(table bareTable, send func(*bareRing) error, end func()) *bareRinger {
	r := &bareRinger{table: table, rows: 1, close: end}
	for range receiverConcurrency {
		r.deliver = append(r.deliver, func(rings []bareRing) error {
			for i := range rings {
				if err := send(&rings[i]); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return r
}
