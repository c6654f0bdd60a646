//go:build !unix

package rabbit

import (
	"net"

	"github.com/clockd/clockd/ring"
)

// writeUntil writes p unless the write limit has passed. The connection's write deadline ends a write that waits for buffer space.
func writeUntil(conn net.Conn, p []byte, limits ring.Limits) (int, error) {
	return writeOnce(conn, p, limits)
}
