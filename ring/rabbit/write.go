package rabbit

import (
	"net"
	"time"
)

// writeOnce writes p unless deadline has passed. The connection's own write deadline bounds the call.
func writeOnce(conn net.Conn, p []byte, deadline time.Time) (int, error) {
	if !time.Now().Before(deadline) {
		return 0, errTooLate
	}
	return conn.Write(p)
}
