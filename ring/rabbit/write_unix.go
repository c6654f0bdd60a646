//go:build unix

package rabbit

import (
	"errors"
	"io"
	"net"
	"syscall"
	"time"
)

// writeUntil writes p, and begins no system call at deadline or later. net.Conn.Write with a deadline would not do: it
// waits for room in the socket's buffer, and a process that is stopped meanwhile and goes on after the deadline finds
// room and deadline at once, and may write (10 MB in one of two tries). It returns how many bytes the operating system
// took.
func writeUntil(conn net.Conn, p []byte, deadline time.Time) (int, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return writeOnce(conn, p, deadline)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for n < len(p) {
			if !time.Now().Before(deadline) {
				failed = errTooLate
				return true
			}
			m, err := syscall.Write(int(fd), p[n:])
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false // wait for room, and look at the clock again
			case err != nil:
				failed = err
				return true
			case m == 0:
				failed = io.ErrUnexpectedEOF
				return true
			default:
				n += m
			}
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return n, err
}
