//go:build unix

package rabbit

import (
	"errors"
	"io"
	"net"
	"syscall"

	"github.com/clockd/clockd/ring"
)

// writeUntil writes p, and begins no system call at the write limit or later. It returns the number of bytes that the operating system took.
//
// net.Conn.Write with a deadline is not enough. It waits for space in the socket's buffer. If the process is stopped during that wait and
// continues after the deadline, it finds both the space and the passed deadline, and may write (10 MB, in one try of two).
func writeUntil(conn net.Conn, p []byte, limits ring.Limits) (int, error) {
	sc, ok := conn.(syscall.Conn)
	if !ok {
		return writeOnce(conn, p, limits)
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return 0, err
	}
	n := 0
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for n < len(p) {
			if limits.TooLateToWrite() {
				failed = errTooLate
				return true
			}
			m, err := syscall.Write(int(fd), p[n:])
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false // wait for buffer space, then read the clock again
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
