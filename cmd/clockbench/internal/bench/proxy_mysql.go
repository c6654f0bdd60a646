package bench

import (
	"encoding/binary"
	"sync"
)

// The commands of the MySQL protocol that the proxy distinguishes.
const (
	mysqlQuit    = 0x01
	mysqlQuery   = 0x03
	mysqlExecute = 0x17
	mysqlLong    = 0x18 // sends a long parameter; has no response
	mysqlForget  = 0x19 // closes a statement; has no response
)

const (
	mysqlHead          = 4        // head of a packet: its length, and its number in the exchange
	mysqlStatus        = 32       // number of first bytes that contain the status in the last packet of a response
	mysqlLongest       = 0xffffff // a packet of this length continues in the next packet
	mysqlOK            = 0x00
	mysqlEOF           = 0xfe
	mysqlEOFBytes      = 5
	mysqlInTransaction = 0x0001 // bit of the status
)

// mysqlSession parses one connection of the MySQL protocol. The last packet of every response says whether a
// transaction is open. The session evaluates it when the next command comes, because only then is it known to be the
// last packet.
type mysqlSession struct {
	counts *proxyCounts

	mu      sync.Mutex
	command byte   // latest command
	last    []byte // beginning of the latest packet from the server
	length  int    // length of that packet
}

func mysqlProtocol(counts *proxyCounts) (toServer, fromServer *framer) {
	s := &mysqlSession{counts: counts}
	return newFramer(mysqlHead, s.request), newFramer(mysqlHead, s.response)
}

func mysqlLength(head []byte) int { return int(head[0]) | int(head[1])<<8 | int(head[2])<<16 }

// request parses the packets of the client. A command is the first packet of an exchange.
func (s *mysqlSession) request(head []byte) (lacks, rest int) {
	length, first := mysqlLength(head), head[3] == 0
	switch {
	case !first || length == 0:
		return 0, length
	case len(head) == mysqlHead:
		return 1, 0
	}
	s.begin(head[mysqlHead])
	return 0, length - 1
}

func (s *mysqlSession) begin(command byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end()
	s.command = command
	switch command {
	case mysqlQuery, mysqlExecute:
		s.counts.statements.Add(1)
	case mysqlQuit, mysqlLong, mysqlForget:
		return // has no response
	}
	s.counts.roundTrips.Add(1)
}

// end counts the transaction that the latest command has ended: an open transaction, or the transaction of the
// statement itself.
func (s *mysqlSession) end() {
	status, told := mysqlStatusOf(s.last, s.length)
	s.last = s.last[:0]
	if told && (s.command == mysqlQuery || s.command == mysqlExecute) && status&mysqlInTransaction == 0 {
		s.counts.transactions.Add(1)
	}
}

// response parses the packets of the server.
func (s *mysqlSession) response(head []byte) (lacks, rest int) {
	length := mysqlLength(head)
	if seen := mysqlHead + min(length, mysqlStatus); len(head) < seen {
		return seen - len(head), 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.length = append(s.last[:0], head[mysqlHead:]...), length
	return 0, length - (len(head) - mysqlHead)
}

// mysqlStatusOf returns the status in the last packet of a response. An error packet has no status.
func mysqlStatusOf(b []byte, length int) (status uint16, told bool) {
	switch {
	case length == 0 || length == mysqlLongest || len(b) == 0:
		return 0, false
	case b[0] == mysqlEOF && length == mysqlEOFBytes:
		return binary.LittleEndian.Uint16(b[3:]), true
	case b[0] != mysqlOK && b[0] != mysqlEOF:
		return 0, false
	}
	b = b[1:]
	for range 2 { // rows affected, last id
		if len(b) == 0 {
			return 0, false
		}
		b = b[min(mysqlNumberBytes(b[0]), len(b)):]
	}
	if len(b) < 2 {
		return 0, false
	}
	return binary.LittleEndian.Uint16(b), true
}

// mysqlNumberBytes returns the length of a length-encoded number with this first byte.
func mysqlNumberBytes(first byte) int {
	switch first {
	case 0xfc:
		return 3
	case 0xfd:
		return 4
	case 0xfe:
		return 9
	default:
		return 1
	}
}
