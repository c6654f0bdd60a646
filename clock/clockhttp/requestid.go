package clockhttp

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/labstack/echo/v4"
)

// maxRequestID is the most bytes of a request id that a client gives.
const maxRequestID = 128

// requestIDs makes request ids. The random part is unlike that of any other process, so no two requests of a cluster
// have the same id.
type requestIDs struct {
	process string // random text of this process, with a hyphen
	last    atomic.Uint64
}

func newRequestIDs() *requestIDs { return &requestIDs{process: rand.Text()[:13] + "-"} }

func (ids *requestIDs) next() string {
	var b [32]byte
	return string(strconv.AppendUint(append(b[:0], ids.process...), ids.last.Add(1), 36))
}

// identify gives the request its id, and repeats the id in the response. The id is the header X-Request-Id of the
// request if it is valid, else a new one.
func (ids *requestIDs) identify(w http.ResponseWriter, r *http.Request) {
	given := r.Header[echo.HeaderXRequestID]
	if len(given) != 1 || !validRequestID(given[0]) {
		given = []string{ids.next()}
		r.Header[echo.HeaderXRequestID] = given
	}
	w.Header()[echo.HeaderXRequestID] = given
}

// requestID returns the id of a request that identify has seen, "" for another request.
func requestID(r *http.Request) string { return r.Header.Get(echo.HeaderXRequestID) }

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
