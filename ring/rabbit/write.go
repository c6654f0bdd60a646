package rabbit

import (
	"net"

	"github.com/clockd/clockd/ring"
)

// writeOnce writes p unless the write limit has passed. The connection's write deadline bounds the call.
func writeOnce(conn net.Conn, p []byte, limits ring.Limits) (int, error) {
	if limits.TooLateToWrite() {
		return 0, errTooLate
	}
	return conn.Write(p)
}
