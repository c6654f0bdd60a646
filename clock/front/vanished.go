package front

import (
	"fmt"
	"net"
	"net/http"
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

// FindVanished makes the kernel end the connection of a lasting response when its remote host no longer acknowledges
// anything. On HTTP/2 the server's pings do so.
func FindVanished(r *http.Request) error {
	c := connOf(r)
	if c == nil || r.ProtoMajor > 1 {
		return nil
	}
	if err := findVanished(c.tcp); err != nil {
		return fmt.Errorf("set the connection's limits: %w", err)
	}
	return nil
}

func findVanished(conn *net.TCPConn) error {
	err := conn.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepaliveIdle, Interval: keepaliveInterval,
		Count: keepaliveCount})
	if err != nil {
		return err
	}
	return limitUnanswered(conn)
}
