package httpcall

import (
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"github.com/clockd/clockd/ring"
)

// limitsAfter returns limits that pass with a look at the clock: the first looks allow a write, later ones do not.
func limitsAfter(looks int) ring.Limits {
	asked := 0
	return ring.Limits{WriteBy: time.Now().Add(time.Minute), Suspended: func() time.Duration {
		if asked++; asked > looks {
			return time.Hour
		}
		return 0
	}}
}

// A large request is written in pieces. The write ends at the first look at the clock after the write limit of a ring,
// and only a ring of which a byte may have left is begun.
func TestWriteLimitHoldsForEachPieceOfARequest(t *testing.T) {
	for name, looks := range map[string]int{"too late at once": 0, "too late after a piece": 1, "too late after two pieces": 2} {
		t.Run(name, func(t *testing.T) {
			near, far := net.Pipe()
			t.Cleanup(func() { far.Close() })
			received := make(chan int64, 1)
			go func() {
				n, _ := io.Copy(io.Discard, far) // ends with the connection
				received <- n
			}()
			c := &ringConn{Conn: near}
			w := &RequestWrite{limits: limitsAfter(looks)}
			w.Use(c, false)
			w.start()
			n, err := c.Write(make([]byte, 5*ring.WritePiece))
			_ = c.Close()
			if want := looks * ring.WritePiece; n != want || !errors.Is(err, ErrTooLate) {
				t.Errorf("%d bytes, want %d; %v", n, want, err)
			}
			if got := <-received; got != int64(n) {
				t.Errorf("the receiver has %d bytes of %d", got, n)
			}
			if begun := w.begun.Load() > 0; begun != (looks > 0) {
				t.Errorf("begun: %t", begun)
			}
		})
	}
}
