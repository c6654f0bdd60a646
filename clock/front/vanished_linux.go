package front

import (
	"net"

	"golang.org/x/sys/unix"
)

// limitUnanswered bounds the time that data may stay unacknowledged (TCP_USER_TIMEOUT, tcp(7)). The default is about 15
// minutes.
func limitUnanswered(conn *net.TCPConn) error {
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Control(func(fd uintptr) {
		failed = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT,
			int(unansweredLimit.Milliseconds()))
	})
	if err != nil {
		return err
	}
	return failed
}
