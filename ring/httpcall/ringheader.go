package httpcall

import (
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/clockd/clockd/clock"
)

// Headers of a ring, in requests of webhooks and as metadata of gRPC. The names are those of the AMQP headers, with the
// prefix x-clockd.
const (
	headerApplication  = "X-Clockd-Application"
	headerBusinessID   = "X-Clockd-Business-Id" // percent-encoded, as in a path
	headerGeneration   = "X-Clockd-Generation"
	headerRingNo       = "X-Clockd-Ring-No"
	headerTargetRingAt = "X-Clockd-Target-Ring-At" // ms since the epoch
	headerRungAt       = "X-Clockd-Rung-At"        // ms since the epoch
	headerRetryTimes   = "X-Clockd-Retry-Times"
	headerClaimID      = "X-Clockd-Claim-Id"
	headerAckTimeout   = "X-Clockd-Ack-Timeout" // ms; only with ack_timeout
	headerTraceparent  = "Traceparent"          // only if the set had one
)

// occurrenceHeaders are the headers of rings of repeating alarms.
var occurrenceHeaders = clock.OccurrenceNames{
	Number: "X-Clockd-Occurrence", At: "X-Clockd-Occurrence-At",
	PreviousAt: "X-Clockd-Occurrence-Previous-At", NextAt: "X-Clockd-Occurrence-Next-At",
}

// usualHeaders is about the number of headers of a request beside those of its sender.
const usualHeaders = 16

// RingHeader is the header of a request. The values of its names have one array, because each request has many.
type RingHeader struct {
	http.Header
	values []string
}

// NewRingHeader returns a header with the headers of a sender, which it does not change.
func NewRingHeader(sender http.Header) *RingHeader {
	h := &RingHeader{Header: make(http.Header, len(sender)+usualHeaders), values: make([]string, 0, usualHeaders)}
	maps.Copy(h.Header, sender)
	return h
}

// Set sets a header. The name must be canonical.
func (h *RingHeader) Set(name, value string) {
	h.values = append(h.values, value)
	n := len(h.values)
	h.Header[name] = h.values[n-1 : n : n]
}

// SetRing sets the headers of a ring.
func (h *RingHeader) SetRing(r *clock.Ring) {
	number := func(name string, n int64) { h.Set(name, strconv.FormatInt(n, 10)) }
	h.Set(headerApplication, r.Application)
	h.Set(headerBusinessID, url.PathEscape(r.BusinessID))
	number(headerGeneration, r.Generation)
	number(headerRingNo, int64(r.RingNo))
	number(headerTargetRingAt, int64(r.RingAt))
	number(headerRungAt, int64(r.RungAt))
	number(headerRetryTimes, int64(r.RetryTimes()))
	h.Set(headerClaimID, r.ClaimID)
	if r.AckTimeout > 0 {
		number(headerAckTimeout, r.AckTimeout.Milliseconds())
	}
	if r.Traceparent != "" {
		h.Set(headerTraceparent, r.Traceparent)
	}
	r.EachOccurrenceNumber(&occurrenceHeaders, number)
}
