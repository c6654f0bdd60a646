package bench

import "encoding/binary"

// frameTypes is the largest frame type plus one.
const frameTypes = amqpHeartbeat + 1

// The frame types of AMQP 0-9-1. A message is a method frame, a header frame, and body frames unless the body is empty.
const (
	amqpMethod    = 1
	amqpHeader    = 2
	amqpBody      = 3
	amqpHeartbeat = 8
)

const (
	amqpGreeting  = 8 // bytes of the protocol header that the client sends first
	amqpFrameHead = 7 // type, channel and payload size
	amqpFrameEnd  = 1
)

func amqpProtocol(counts *proxyCounts) (toServer, fromServer *framer) {
	greeted := false
	frames := func(p *traffic) func(head []byte) (lacks, rest int) {
		return func(head []byte) (lacks, rest int) {
			if kind := int(head[0]); kind < frameTypes {
				p.frames[kind].Add(1)
			}
			return 0, int(binary.BigEndian.Uint32(head[3:])) + amqpFrameEnd
		}
	}
	request := frames(&counts.toServer)
	toServer = newFramer(amqpFrameHead, func(head []byte) (lacks, rest int) {
		if !greeted {
			greeted = true
			return 0, amqpGreeting - amqpFrameHead
		}
		return request(head)
	})
	return toServer, newFramer(amqpFrameHead, frames(&counts.fromServer))
}
