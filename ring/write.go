package ring

import "net"

// WritePiece is the most bytes of rings that a target writes for one look at the clock. A process that is stopped
// between the look and the system call writes one piece late; see the package documentation. Larger writes are split,
// and take one more look for each piece.
const WritePiece = 64 << 10

// writePieces writes p with the Write method of conn. It calls mayWrite before each piece.
func writePieces(conn net.Conn, p []byte, mayWrite func() error) (n int, err error) {
	for n < len(p) {
		if err := mayWrite(); err != nil {
			return n, err
		}
		written, err := conn.Write(firstPiece(p[n:]))
		n += written
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

// firstPiece returns the first piece of p.
func firstPiece(p []byte) []byte { return p[:min(len(p), WritePiece)] }
