package httpcall

import (
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

// SetRing sets the headers of a ring.
func SetRing(header http.Header, r *clock.Ring) {
	number := func(name string, n int64) { header.Set(name, strconv.FormatInt(n, 10)) }
	header.Set(headerApplication, r.Application)
	header.Set(headerBusinessID, url.PathEscape(r.BusinessID))
	number(headerGeneration, r.Generation)
	number(headerRingNo, int64(r.RingNo))
	number(headerTargetRingAt, int64(r.RingAt))
	number(headerRungAt, int64(r.RungAt))
	number(headerRetryTimes, int64(r.RetryTimes()))
	header.Set(headerClaimID, r.ClaimID)
	if r.AckTimeout > 0 {
		number(headerAckTimeout, r.AckTimeout.Milliseconds())
	}
	if r.Traceparent != "" {
		header.Set(headerTraceparent, r.Traceparent)
	}
	r.EachOccurrenceNumber(&occurrenceHeaders, number)
}
