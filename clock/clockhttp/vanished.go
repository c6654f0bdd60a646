package clockhttp

import (
	"net"
	"time"
)

// The kernel detects a vanished host within keepaliveIdle + unansweredLimit. It sends a keepalive probe to a silent
// connection every keepaliveInterval. It ends a connection that acknowledges neither data nor probes for
// unansweredLimit.
const (
	keepaliveIdle     = 4 * time.Second
	keepaliveInterval = 4 * time.Second
	keepaliveCount    = 3
	unansweredLimit   = 12 * time.Second
)

// findVanished makes the kernel end the connection when its remote host no longer acknowledges anything.
func findVanished(conn *net.TCPConn) error {
	err := conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval,
		Count: keepaliveCount})
	if err != nil {
		return err
	}
	return limitUnanswered(conn)
}
