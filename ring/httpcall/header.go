package httpcall

import (
	"net/http"
	"strings"
)

// SetHeader sets a header of a request that must not be repeated. net/http repeats a request with the header
// Idempotency-Key or X-Idempotency-Key when its connection has ended without a response, although the receiver may have
// got it. It looks for the canonical names only, so these two are set in lower case, which means the same to a
// receiver.
func SetHeader(h http.Header, name, value string) {
	switch name = http.CanonicalHeaderKey(name); name {
	case "Idempotency-Key", "X-Idempotency-Key":
		h[strings.ToLower(name)] = []string{value}
	default:
		h.Set(name, value)
	}
}
