package bench

import "encoding/binary"

// frameTypes is one more than the greatest type of a frame.
const frameTypes = amqpHeartbeat + 1

// Types of an AMQP 0-9-1 frame. A message is a method, a header, and a body unless that is empty.
const (
	amqpMethod    = 1
	amqpHeader    = 2
	amqpBody      = 3
	amqpHeartbeat = 8
)

const (
	amqpGreeting  = 8 // bytes that the client sends first
	amqpFrameHead = 7 // type, channel, size of what follows
	amqpFrameEnd  = 1
)

func amqpProtocol(counts *wireCounts) (toServer, fromServer *cutter) {
	greeted := false
	frames := func(p *passed) func(head []byte) (lacks, rest int) {
		return func(head []byte) (lacks, rest int) {
			if kind := int(head[0]); kind < frameTypes {
				p.frames[kind].Add(1)
			}
			return 0, int(binary.BigEndian.Uint32(head[3:])) + amqpFrameEnd
		}
	}
	request := frames(&counts.toServer)
	toServer = newCutter(amqpFrameHead, func(head []byte) (lacks, rest int) {
		if !greeted {
			greeted = true
			return 0, amqpGreeting - amqpFrameHead
		}
		return request(head)
	})
	return toServer, newCutter(amqpFrameHead, frames(&counts.fromServer))
}
