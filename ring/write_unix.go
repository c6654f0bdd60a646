//go:build unix

package ring

import (
	"errors"
	"io"
	"net"
	"syscall"
)

// WriteWhile writes p in pieces of at most WritePiece bytes. It calls mayWrite before each piece, and ends with the
// error of mayWrite. It returns the number of bytes that conn took. The write deadline of conn ends a write that waits
// for buffer space.
//
// On a TCP connection mayWrite is called before each system call. The Write method with a deadline is not enough there.
// It waits for space in the socket's buffer. If the process is stopped during that wait and continues after the
// deadline, it finds both the space and the passed deadline, and may write the rest of the piece.
func WriteWhile(conn net.Conn, p []byte, mayWrite func() error) (n int, err error) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return writePieces(conn, p, mayWrite)
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		for n < len(p) && failed == nil {
			if failed = mayWrite(); failed != nil {
				break
			}
			written, err := syscall.Write(int(fd), firstPiece(p[n:]))
			switch {
			case errors.Is(err, syscall.EINTR):
			case errors.Is(err, syscall.EAGAIN):
				return false // wait for buffer space, then read the clock again
			case err != nil:
				failed = &net.OpError{Op: "write", Net: "tcp", Source: tcp.LocalAddr(), Addr: tcp.RemoteAddr(),
					Err: err}
			case written == 0:
				failed = io.ErrUnexpectedEOF
			default:
				n += written
			}
		}
		return true
	})
	if failed != nil {
		err = failed
	}
	return n, err
}
