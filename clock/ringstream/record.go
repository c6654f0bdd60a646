package ringstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// Resumption says whether a stream goes on at the end of its client's former stream.
type Resumption int8

// The kinds of resumption.
const (
	NotAsked Resumption = iota // the client has had no stream
	Resumed                    // the rings that the client lacks are sent again
	Unknown                    // this process does not know the id: the client may lack rings
)

var resumptionNames = [...]string{NotAsked: "new", Resumed: "resumed", Unknown: "unknown"}

// String returns the name, as metrics use it.
func (r Resumption) String() string { return resumptionNames[r] }

// Opening is what a client learns at the begin of its stream.
type Opening struct {
	Position string // id of the stream before its first ring
	Resumed  Resumption
	Missing  int // rings that are sent again because the client lacks them
}

// Record is the journal's record of one open stream.
type Record struct {
	journal     *Journal
	application *application
	session     *session
	opening     Opening
	missing     []entry         // rings to send again
	over        context.Context //nolint:containedctx // ends when the client resumes the stream with another one, and with Close
	end         context.CancelFunc
}

// Opening returns what the client learns at the begin of the stream.
func (r *Record) Opening() Opening { return r.opening }

// Close notes the end of the stream. Its rings stay in the journal for a time.
func (r *Record) Close() { r.journal.close(r) }

const (
	resendBatch = 256             // rings of one call of Resender.Resend
	resendPause = time.Second     // pause after a resend that failed for the server's reasons
	resendLimit = 2 * time.Minute // longest time in which one stream tries
)

// resend sends the missing rings again, until ctx ends. The journal keeps the other rings for the next stream of the
// client.
func (r *Record) resend(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, resendLimit)
	defer cancel()
	missing := r.missing
	r.missing = nil // gives their memory back when they are sent
	for batch := range slices.Chunk(missing, resendBatch) {
		for len(batch) > 0 {
			if batch = r.resendOnce(ctx, batch); len(batch) == 0 {
				break
			}
			select {
			case <-time.After(resendPause):
			case <-ctx.Done():
				return
			}
		}
	}
}

// resendOnce sends rings again, and returns the rings that failed.
func (r *Record) resendOnce(ctx context.Context, batch []entry) (failed []entry) {
	resends := make([]clock.Resend, len(batch))
	for i, e := range batch {
		resends[i] = clock.Resend{Key: clock.Key{Application: r.application.name}, Ring: e.ring, ClaimID: e.claimID,
			Target: clock.TargetStream}
	}
	done := make(map[entry]bool, len(batch))
	for i, p := range r.journal.alarms.Resend(ctx, resends) {
		switch _, err := p.Wait(ctx); {
		case errors.Is(err, clock.ErrUnavailable), errors.Is(err, clock.ErrUnconfirmed):
			failed = append(failed, batch[i])
			continue
		case err == nil:
			r.journal.metrics.resent.Inc()
		}
		done[batch[i]] = true
	}
	r.journal.forgetMissing(r, done)
	return failed
}
