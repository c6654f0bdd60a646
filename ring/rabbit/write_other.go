//go:build !unix

package rabbit

import (
	"net"
	"time"
)

// writeUntil writes p unless deadline has passed; a write that waits for room ends by the connection's own deadline.
func writeUntil(conn net.Conn, p []byte, deadline time.Time) (int, error) {
	return writeOnce(conn, p, deadline)
}
