package mysql

import (
	"fmt"
	"strings"
)

// The oldest servers that clockd works with: MariaDB and MySQL need SKIP LOCKED.
var (
	minMariaDB = [2]int{10, 6}
	minMySQL   = [2]int{8, 0}
	minTiDB    = [2]int{8, 5}
)

// minPacket is the smallest usable max_allowed_packet, in bytes. It fits a row with the largest payload, doubled by
// escapes.
const minPacket = 1 << 20

// server holds the properties of the server that Check read.
type server struct {
	maria     bool
	tidb      bool
	version   string // without the packager's suffix; of TiDB its own version, not the version of MySQL that it resembles
	maxPacket int    // longest statement, in bytes
	idStep    int64  // difference between consecutive ids of one INSERT
}

// parseServer reads VERSION(): "10.11.19-MariaDB-0+deb12u1", "8.0.36", "5.5.5-10.11.2-MariaDB", "8.0.11-TiDB-v8.5.3".
func parseServer(version string) server {
	if _, tidb, is := strings.Cut(version, "-TiDB-v"); is {
		number, _, _ := strings.Cut(tidb, "-")
		return server{tidb: true, version: number}
	}
	version = strings.TrimPrefix(version, "5.5.5-") // MariaDB adds this prefix for old replicas
	number, rest, _ := strings.Cut(version, "-")
	return server{maria: strings.Contains(rest, "MariaDB"), version: number}
}

// String names the server, like "mariadb 10.11.19". It returns "" before Check.
func (s server) String() string {
	switch {
	case s.version == "":
		return ""
	case s.maria:
		return "mariadb " + s.version
	case s.tidb:
		return "tidb " + s.version
	default:
		return "mysql " + s.version
	}
}

// check returns why clockd cannot work with the server, or nil.
func (s server) check() error {
	least := minMySQL
	switch {
	case s.maria:
		least = minMariaDB
	case s.tidb:
		least = minTiDB
	}
	var v [2]int
	if _, err := fmt.Sscanf(s.version, "%d.%d", &v[0], &v[1]); err != nil {
		return fmt.Errorf("the server's version %q cannot be read", s.version)
	}
	if v[0] < least[0] || v[0] == least[0] && v[1] < least[1] {
		return fmt.Errorf("the server is %s; clockd needs at least MariaDB %d.%d, MySQL %d.%d or TiDB %d.%d", s,
			minMariaDB[0], minMariaDB[1],
			minMySQL[0], minMySQL[1], minTiDB[0], minTiDB[1])
	}
	if s.maxPacket < minPacket {
		return fmt.Errorf("the server's max_allowed_packet is %d; clockd needs at least %d", s.maxPacket, minPacket)
	}
	return nil
}

// maxStatement returns how many bytes the rows of one statement may have together.
func (s server) maxStatement() int { return s.maxPacket / 4 * 3 }
