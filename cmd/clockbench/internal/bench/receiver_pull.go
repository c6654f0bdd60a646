package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	pullWorkers = 16 // workers that reserve rings at once
	pullCount   = 64 // rings that a worker reserves at once, at most: the most that clockd gives
)

// workers reserve the rings of their application.
type workers struct {
	answer bool // they acknowledge each ring, with a request each
}

var _ receiver = (*workers)(nil)

// Settings gives the workers more time than the bench takes, because an alarm without an answer rings again.
func (*workers) Settings() []string { return []string{"--target=pull", "--ack-timeout=1h"} }

// Environment needs nothing.
func (*workers) Environment() []string { return nil }

// Close does nothing: the workers end with their consumer.
func (*workers) Close() error { return nil }

// Consume starts the workers.
func (w *workers) Consume(ctx context.Context, base string, t *tally) (*consumer, error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &consumer{stop: cancel}
	for range pullWorkers {
		conn, err := dialHTTP(ctx, base)
		if err != nil {
			return nil, errors.Join(err, c.close())
		}
		conn.useRings(application)
		stop := context.AfterFunc(ctx, conn.close)
		c.wait.Go(func() {
			defer stop()
			if err := w.work(ctx, conn, t); ctx.Err() == nil {
				c.fail(err)
			}
		})
	}
	return c, nil
}

// reserveBody asks for rings.
var reserveBody = fmt.Appendf(nil, `{"count":%d,"wait":"20s"}`, pullCount)

// work reserves rings, one request after the other, until ctx ends.
func (w *workers) work(ctx context.Context, conn *httpConn, t *tally) error {
	defer conn.close()
	var response bytes.Buffer
	for ctx.Err() == nil {
		response.Reset()
		conn.head(http.MethodPost, []byte("/reserve"))
		status, err := conn.send(reserveBody, func(body io.Reader) error {
			_, err := response.ReadFrom(body)
			return err
		})
		if err := expect(status, err, http.StatusOK); err != nil {
			return fmt.Errorf("reserve: %w: %.300s", err, &response)
		}
		for _, got := range reservedRings(response.Bytes(), time.Now()) {
			t.take(&got)
			if !w.answer {
				continue
			}
			conn.head(http.MethodPost, fmt.Appendf(nil, "/%s/ack", got.messageID))
			status, err := conn.send(nil, nil)
			if err := expect(status, err, http.StatusOK); err != nil {
				return fmt.Errorf("acknowledge %s: %w", got.messageID, err)
			}
		}
	}
	return nil
}

// reservedRings extracts the rings of a response. As in eventOf, no JSON is parsed: the payloads of the bench have a
// fixed length.
func reservedRings(response []byte, at time.Time) (rings []ring) {
	const mark = `{"message_id":"`
	for _, one := range bytes.Split(response, []byte(mark))[1:] {
		id, rest, _ := bytes.Cut(one, []byte{'"'})
		_, payload, _ := bytes.Cut(rest, []byte(`"payload":`))
		rings = append(rings, ring{
			messageID: id, businessID: textAfter(rest, `"business_id":"`),
			payload: payload[:min(len(payload), payloadBytes)], at: at,
		})
	}
	return rings
}

// pulledTarget is the smallest allowed ratio of a herd that workers reserve to a herd over the stream.
const pulledTarget = 0.8

// pull measures herds that workers reserve, by turns with herds over the stream, and then the lateness of both.
func (r *run) pull(ctx context.Context) error {
	open := func(ctx context.Context) (*testbed, error) { return r.makeReceiverTestbed(ctx, &workers{}) }
	return inTestbedOf(open, func(ctx context.Context, b *testbed) error {
		return r.onStream(func(ctx context.Context, stream *testbed) error {
			return r.pullBeside(ctx, b, stream)
		})(ctx)
	})(ctx)
}

// pullTurn is one way to take herds, with its results.
type pullTurn struct {
	what   string
	on     *testbed
	answer bool // the workers acknowledge each ring
	rounds herdRounds
}

// pullBeside measures the workers' testbed beside the testbed of the stream.
func (r *run) pullBeside(ctx context.Context, b, stream *testbed) error {
	reserved, answered := &pullTurn{what: "reserved", on: b}, &pullTurn{what: "answered", on: b, answer: true}
	streamed := &pullTurn{what: "stream", on: stream}
	for _, on := range []*testbed{b, stream} {
		if err := r.warmUp(ctx, on); err != nil {
			return err
		}
	}
	for round := range r.cfg.Rounds {
		for _, turn := range []*pullTurn{reserved, streamed, answered} {
			if err := r.pullHerd(ctx, b, turn, round); err != nil {
				return err
			}
		}
	}
	what := "pull herd, " + commas(int64(r.cfg.Herd)) + " due at once"
	r.add(stagePull,
		figureOf(what+", reserved", perSecond, reserved.rounds.rates).
			besideAll("herd over the stream", streamed.rounds.rates).ratioAtLeast(pulledTarget),
		figureOf(what+", reserved and acknowledged", perSecond, answered.rounds.rates))
	r.addHerdCosts(b, stagePull, "pull herd", &reserved.rounds, "")
	b.receiver = &workers{}
	late, err := r.ringSteadily(ctx, b, &steady{stage: stagePull, name: "late", rate: r.cfg.Rate})
	if err != nil {
		return err
	}
	beside, err := r.ringSteadily(ctx, stream, &steady{stage: stagePull, name: "late", rate: r.cfg.Rate})
	if err != nil {
		return err
	}
	r.add(stagePull, latenessFigures(fmt.Sprintf("pull lateness at %d/s", r.cfg.Rate), late, "stream", beside)...)
	return nil
}

// pullHerd takes one herd.
func (r *run) pullHerd(ctx context.Context, b *testbed, turn *pullTurn, round int) error {
	r.progress.say("pull, round %d: %s", round+1, turn.what)
	b.receiver = &workers{answer: turn.answer}
	h, err := r.ringHerd(ctx, turn.on, stagePull, fmt.Sprint(turn.what, round), r.cfg.Herd, nil)
	if err == nil {
		turn.rounds.add(&h)
	}
	return err
}
