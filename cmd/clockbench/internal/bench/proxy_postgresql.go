package bench

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	postgresStart = 8 // bytes of the head of the first message, which has no type
	postgresHead  = 5 // bytes of all other heads: the type, and a length that includes itself
)

// postgresSession parses one connection of the PostgreSQL protocol, without TLS.
type postgresSession struct {
	counts   *proxyCounts
	started  bool
	executed atomic.Bool // whether a statement ran since the server was last ready
}

func postgresProtocol(counts *proxyCounts) (toServer, fromServer *framer) {
	s := &postgresSession{counts: counts}
	return newFramer(postgresHead, s.request), newFramer(postgresHead, s.response)
}

func postgresRest(head []byte) int {
	return int(binary.BigEndian.Uint32(head[1:])) - (postgresHead - 1)
}

// request parses the messages of the client. A statement is a simple query, or an execute of an extended query. A
// simple query and a sync each wait for the server, and so are round trips.
func (s *postgresSession) request(head []byte) (lacks, rest int) {
	if !s.started {
		if len(head) < postgresStart {
			return postgresStart - len(head), 0
		}
		s.started = true
		return 0, int(binary.BigEndian.Uint32(head)) - postgresStart
	}
	switch head[0] {
	case 'Q':
		s.executed.Store(true)
		s.counts.statements.Add(1)
		s.counts.roundTrips.Add(1)
	case 'E':
		s.executed.Store(true)
		s.counts.statements.Add(1)
	case 'S':
		s.counts.roundTrips.Add(1)
	}
	return 0, postgresRest(head)
}

// response parses the messages of the server. Its ready message says whether a transaction is open.
func (s *postgresSession) response(head []byte) (lacks, rest int) {
	if head[0] != 'Z' {
		return 0, postgresRest(head)
	}
	if len(head) == postgresHead {
		return 1, 0
	}
	const idle = 'I'
	if s.executed.Swap(false) && head[postgresHead] == idle {
		s.counts.transactions.Add(1)
	}
	return 0, postgresRest(head) - 1
}
