package front

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"
)

// headerRequestID is the header of a request id, in its canonical form.
const headerRequestID = "X-Request-Id"

// maxRequestID is the most bytes of a request id that a client gives.
const maxRequestID = 128

// RequestIDs makes request ids. The random part is unlike that of any other process, so no two requests of a cluster
// have the same id.
type RequestIDs struct {
	process string // random text of this process, with a hyphen
	last    atomic.Uint64
}

// NewRequestIDs returns a maker of ids.
func NewRequestIDs() *RequestIDs { return &RequestIDs{process: rand.Text()[:13] + "-"} }

func (ids *RequestIDs) next() string {
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], ids.process...), ids.last.Add(1), 36))
}

// Identify gives the request its id, and repeats the id in the response. The id is the header X-Request-Id of the
// request if it is valid, else a new one.
func (ids *RequestIDs) Identify(w http.ResponseWriter, r *http.Request) {
	given := r.Header[headerRequestID]
	if len(given) != 1 || !validRequestID(given[0]) {
		given = []string{ids.next()}
		r.Header[headerRequestID] = given
	}
	w.Header()[headerRequestID] = given
}

// RequestID returns the id of a request that Identify has seen, "" for another request.
func RequestID(r *http.Request) string { return r.Header.Get(headerRequestID) }

// validRequestID reports whether an id is safe in logs, headers and commands: 1 to 128 letters, digits and signs out of
// -._~:/+=@.
func validRequestID(id string) bool {
	if id == "" || len(id) > maxRequestID {
		return false
	}
	for i := range len(id) {
		switch c := id[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '-', c == '.', c == '_', c == '~', c == ':', c == '/', c == '+', c == '=', c == '@':
		default:
			return false
		}
	}
	return true
}
