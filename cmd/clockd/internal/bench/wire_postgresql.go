package bench

import (
	"encoding/binary"
	"sync/atomic"
)

const (
	postgresStart = 8 // bytes of the first message's head: it has no type
	postgresHead  = 5 // of all others: type and length, which counts itself
)

// postgresSession is one connection of the PostgreSQL protocol, without TLS.
type postgresSession struct {
	counts   *wireCounts
	started  bool
	executed atomic.Bool // something was since the server was last ready
}

func postgresProtocol(counts *wireCounts) (toServer, fromServer *cutter) {
	s := &postgresSession{counts: counts}
	return newCutter(postgresHead, s.request), newCutter(postgresHead, s.answer)
}

func postgresRest(head []byte) int {
	return int(binary.BigEndian.Uint32(head[1:])) - (postgresHead - 1)
}

// request reads what the client sends: a simple query, or an execute (of an extended one) whose answer a sync waits for.
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

// answer reads what the server sends: it says whenever it is ready, and whether a transaction is open then.
func (s *postgresSession) answer(head []byte) (lacks, rest int) {
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
