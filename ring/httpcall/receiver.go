package httpcall

import (
	"sync"
	"time"
)

const (
	// patience is the longest time for which a shared batch waits for an application's replies. It ends earlier for a
	// receiver that is usually quick, at twice the time after which a reply is overdue. After it the receiver is slow,
	// and shared batches do not wait for it at all, until a reply comes within patience again.
	patience = 250 * time.Millisecond
	// maxPatience is the longest time for which a round of the quarantine waits for replies. It ends earlier after
	// patience without a reply.
	maxPatience = 500 * time.Millisecond
	// overdueFactor says when a reply is overdue: after this many times the usual time of the receiver's replies, and
	// after a tenth of patience at least.
	overdueFactor = 4
	// maxPause bounds the time for which a Retry-After holds all rings of the application. The ring that got it waits
	// as long as it demands.
	maxPause = time.Minute
	// forgetAfter is the time after which a receiver without requests is forgotten.
	forgetAfter = time.Minute
)

// receiver is the state of one receiver (clock.ReceiverOf).
type receiver struct {
	slots map[*slot]struct{} // requests under way; guarded by slots.mu
	class class              // guarded by slots.mu
	slow  bool               // the last wait ended without a reply, or the last reply came later than patience; guarded by slots.mu
	usual time.Duration      // about the time of its replies within patience, 0: none yet; guarded by slots.mu

	mu          sync.Mutex
	sender      Sender    // of the endpoint that was used last; nil: none
	senderErr   error     // why that endpoint cannot be used; nil with a sender
	endpoint    Endpoint  // that endpoint
	replied     time.Time // time of the last reply; zero: none
	pausedUntil time.Time // the receiver wants no request before; zero: none
	users       int       // deliveries that use the receiver
	used        time.Time // end of the last use
}

// overdueAfter returns the age at which a request's reply is overdue. The usual time of a receiver that has not replied
// is taken to be a tenth of patience. The caller holds slots.mu.
func (r *receiver) overdueAfter(patience time.Duration) time.Duration {
	usual := r.usual
	if usual == 0 {
		usual = patience / 10
	}
	return min(max(patience/10, overdueFactor*usual), patience)
}

// lateAfter returns the age at which an overdue reply is late.
func lateAfter(overdue, patience time.Duration) time.Duration { return min(2*overdue, patience) }

// senderOf returns the sender of the endpoint, or why the endpoint cannot be used.
func (r *receiver) senderOf(e Endpoint) (Sender, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.endpoint != e {
		r.endpoint = e
		r.sender, r.senderErr = e.NewSender()
	}
	return r.sender, r.senderErr
}

// lastReply returns the time of the last reply.
func (r *receiver) lastReply() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replied
}

func (r *receiver) noteReply(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replied = now
}

// pause holds the receiver's further rings. It returns the time until which they are held.
func (r *receiver) pause(wait time.Duration) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := time.Now().Add(min(wait, maxPause)); until.After(r.pausedUntil) {
		r.pausedUntil = until
	}
	return r.pausedUntil
}

func (r *receiver) isPaused() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Before(r.pausedUntil)
}

// idleSince reports whether nothing has used the receiver since a time, and whether nothing holds it.
func (r *receiver) idleSince(at time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.users == 0 && r.used.Before(at) && time.Now().After(r.pausedUntil)
}

func (r *receiver) use(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.users += n
	r.used = time.Now()
}

// receivers are the receivers in use, by application.
type receivers struct {
	mu    sync.Mutex
	all   map[string]*receiver
	swept time.Time
}

// get returns the receiver of an application for one more user. The caller ends the use with receiver.use(-1).
func (rs *receivers) get(application string) *receiver {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.sweep()
	r := rs.all[application]
	if r == nil || r.idleSince(time.Now().Add(-forgetAfter)) { // the last sweep may have come too early for it
		r = &receiver{}
		rs.all[application] = r
	}
	r.use(1)
	return r
}

// sweep forgets receivers without use, now and then.
func (rs *receivers) sweep() {
	now := time.Now()
	if now.Sub(rs.swept) < forgetAfter/4 {
		return
	}
	rs.swept = now
	for application, r := range rs.all {
		if r.idleSince(now.Add(-forgetAfter)) {
			delete(rs.all, application)
		}
	}
}

func (rs *receivers) isPaused(application string) bool {
	rs.mu.Lock()
	r := rs.all[application]
	rs.mu.Unlock()
	return r != nil && r.isPaused()
}

// failedDials remembers the last failure of connections, by address. A connection may fail after its ring has given up
// waiting for it.
type failedDials struct {
	mu     sync.Mutex
	errors map[string]failedDial
}

type failedDial struct {
	err error
	at  time.Time
}

// note notes the result of a connection.
func (f *failedDials) note(address string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	if delete(f.errors, address); err != nil {
		f.errors[address] = failedDial{err, now}
	}
	for other, failed := range f.errors {
		if now.Sub(failed.at) > forgetAfter {
			delete(f.errors, other)
		}
	}
}

// last returns the last failure, nil if the last connection succeeded or is long ago.
func (f *failedDials) last(address string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.errors[address].err
}
