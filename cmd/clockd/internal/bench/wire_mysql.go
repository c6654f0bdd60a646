package bench

import (
	"encoding/binary"
	"sync"
)

// Commands of the MySQL protocol.
const (
	mysqlQuit    = 0x01
	mysqlQuery   = 0x03
	mysqlExecute = 0x17
	mysqlLong    = 0x18 // sends a long parameter
	mysqlForget  = 0x19 // closes a statement
)

const (
	mysqlHead          = 4        // of a packet: its length and its number in the exchange
	mysqlStatus        = 32       // a packet's first bytes, enough to hold the status that ends an answer
	mysqlLongest       = 0xffffff // a packet so long is followed by more of the same
	mysqlOK            = 0x00
	mysqlEOF           = 0xfe
	mysqlEOFBytes      = 5
	mysqlInTransaction = 0x0001 // in the status
)

// mysqlSession is one connection of the MySQL protocol. Every answer ends with whether a transaction is open then; it is read
// when the next command comes, for only then the packet before is known to have been the last.
type mysqlSession struct {
	counts *wireCounts

	mu      sync.Mutex
	command byte   // the last one that was sent
	last    []byte // beginning of the last packet that was answered
	length  int    // of that packet
}

func mysqlProtocol(counts *wireCounts) (toServer, fromServer *cutter) {
	s := &mysqlSession{counts: counts}
	return newCutter(mysqlHead, s.request), newCutter(mysqlHead, s.answer)
}

func mysqlLength(head []byte) int { return int(head[0]) | int(head[1])<<8 | int(head[2])<<16 }

// request reads what the client sends: a command is the first packet of an exchange.
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
		return // is not answered
	}
	s.counts.roundTrips.Add(1)
}

// end counts the transaction that the last command has ended: one that was open, or its own.
func (s *mysqlSession) end() {
	status, told := mysqlStatusOf(s.last, s.length)
	s.last = s.last[:0]
	if told && (s.command == mysqlQuery || s.command == mysqlExecute) && status&mysqlInTransaction == 0 {
		s.counts.transactions.Add(1)
	}
}

// answer reads what the server sends.
func (s *mysqlSession) answer(head []byte) (lacks, rest int) {
	length := mysqlLength(head)
	if seen := mysqlHead + min(length, mysqlStatus); len(head) < seen {
		return seen - len(head), 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.length = append(s.last[:0], head[mysqlHead:]...), length
	return 0, length - (len(head) - mysqlHead)
}

// mysqlStatusOf returns the status that a packet ends an answer with; an error has none.
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

// mysqlNumberBytes returns how long a number is that begins so.
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
