//go:build !unix

package ring

import "net"

// WriteWhile writes p in pieces of at most WritePiece bytes. It calls mayWrite before each piece, and ends with the
// error of mayWrite. It returns the number of bytes that conn took. The write deadline of conn ends a write that waits
// for buffer space.
func WriteWhile(conn net.Conn, p []byte, mayWrite func() error) (n int, err error) {
	return writePieces(conn, p, mayWrite)
}
