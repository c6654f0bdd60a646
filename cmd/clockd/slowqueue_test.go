package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// slowQueueProxy is a TCP proxy in front of RabbitMQ that passes on the confirms of one application's rings late, and
// all other frames at once.
type slowQueueProxy struct {
	listener net.Listener
	broker   string
	key      string // routing key of the late messages
	late     time.Duration
	wait     sync.WaitGroup
}

// withSlowQueue returns the URL of a proxy that delays the confirms of messages with a routing key.
func withSlowQueue(t *testing.T, rawURL, key string, late time.Duration) (via string) {
	t.Helper()
	u := parse(t, rawURL)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &slowQueueProxy{listener: listener, broker: u.Host, key: key, late: late}
	p.wait.Go(p.accept)
	t.Cleanup(func() {
		_ = listener.Close()
		p.wait.Wait()
	})
	through := *u
	through.Host = listener.Addr().String()
	return through.String()
}

func (p *slowQueueProxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.broker)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &slowQueueConn{p: p, client: client, server: server, channels: map[uint16]*publishedOn{}}
		p.wait.Go(func() { c.pass(client, server, 8, c.notePublish) }) // the client begins with the 8 bytes of the protocol header
		p.wait.Go(func() { c.pass(server, client, 0, c.holdAck) })
	}
}

// slowQueueConn is one connection through the proxy.
type slowQueueConn struct {
	p              *slowQueueProxy
	client, server net.Conn

	mu       sync.Mutex // also guards writes to the client
	channels map[uint16]*publishedOn
}

// publishedOn are the messages that were published on one channel.
type publishedOn struct {
	last    uint64          // newest delivery tag
	waiting map[uint64]bool // tags without a confirm; true: its confirm is to be late
}

// frame is an AMQP frame with its header and its end.
type frame []byte

const (
	frameHeader     = 7
	methodFrame     = 1
	basicPublish    = 60<<16 | 40
	basicAck        = 60<<16 | 80
	channelOpen     = 20<<16 | 10
	methodArguments = frameHeader + 4 // begin of a method's arguments
)

func (f frame) channel() uint16 { return binary.BigEndian.Uint16(f[1:]) }

// method returns the class and the method of a method frame, else 0.
func (f frame) method() uint32 {
	if f[0] != methodFrame {
		return 0
	}
	return binary.BigEndian.Uint32(f[frameHeader:])
}

// routingKey returns the routing key of basic.publish: it follows a reserved short and the exchange.
func (f frame) routingKey() string {
	rest := f[methodArguments+2:]
	rest = rest[1+rest[0]:]
	return string(rest[1 : 1+rest[0]])
}

func readFrame(from io.Reader) (frame, error) {
	var header [frameHeader]byte
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return nil, err
	}
	f := make(frame, frameHeader+binary.BigEndian.Uint32(header[3:])+1)
	copy(f, header[:])
	_, err := io.ReadFull(from, f[frameHeader:])
	return f, err
}

// pass copies frames until a side ends. do returns the frame to pass on now; nil: none.
func (c *slowQueueConn) pass(from, to net.Conn, head int64, do func(f frame) frame) {
	defer func() { _, _ = c.client.Close(), c.server.Close() }()
	if _, err := io.CopyN(to, from, head); err != nil {
		return
	}
	in := bufio.NewReader(from)
	for {
		f, err := readFrame(in)
		if err != nil {
			return
		}
		c.mu.Lock()
		f = do(f)
		if to == c.client && f != nil {
			_, err = to.Write(f)
		}
		c.mu.Unlock()
		if to == c.server && f != nil {
			_, err = to.Write(f)
		}
		if err != nil {
			return
		}
	}
}

// notePublish counts the messages of each channel.
func (c *slowQueueConn) notePublish(f frame) frame {
	switch f.method() {
	case channelOpen:
		c.channels[f.channel()] = &publishedOn{waiting: map[uint64]bool{}}
	case basicPublish:
		ch := c.channels[f.channel()]
		ch.last++
		ch.waiting[ch.last] = f.routingKey() == c.p.key
	}
	return f
}

// holdAck holds back basic.ack, and sends an ack of its own for each message: at once, or late.
func (c *slowQueueConn) holdAck(f frame) frame {
	if f.method() != basicAck {
		return f
	}
	tag, multiple := binary.BigEndian.Uint64(f[methodArguments:]), f[methodArguments+8]&1 > 0
	ch := c.channels[f.channel()]
	for waiting, late := range ch.waiting {
		if waiting != tag && (!multiple || waiting > tag) {
			continue
		}
		delete(ch.waiting, waiting)
		ack := append(frame(nil), f...)
		binary.BigEndian.PutUint64(ack[methodArguments:], waiting)
		ack[methodArguments+8] = 0
		if !late {
			_, _ = c.client.Write(ack)
			continue
		}
		time.AfterFunc(c.p.late, func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			_, _ = c.client.Write(ack)
		})
	}
	return nil
}

// One queue always confirms late, beside queues that confirm at once. Its rings are published once each, in time, and
// all of them; the others do not wait for it.
func TestSlowQueueBesideQuickOnesGetsNoCopies(t *testing.T) {
	t.Parallel()
	b := dialBroker(t, amqpURL())
	p := start(t, "CLOCKD_DATABASE_URL="+postgres(t),
		"CLOCKD_AMQP_URL="+withSlowQueue(t, amqpURL(), "slow", 5*time.Second), "CLOCKD_AMQP_EXCHANGE="+b.exchange)
	const count, limit = 300, 15 * time.Second
	received := map[string]*receiver{}
	for _, a := range []string{"slow", "quick", "other"} {
		received[a] = b.receive(a)
	}
	due := time.Now().Add(2 * time.Second)
	for a := range received {
		var sets []map[string]any
		for i := range count {
			at := due.Add(time.Duration(i) * 100 * time.Millisecond)
			sets = append(sets,
				map[string]any{"business_id": fmt.Sprintf("order-%d", i), "ring_at": at.UnixMilli(),
					"latest_ring_at": at.Add(limit).UnixMilli()})
		}
		p.must(http.StatusOK, http.MethodPost, "/v1/applications/"+a+"/alarms", map[string]any{"set": sets})
	}
	for a, r := range received {
		eventually(t, "all alarms ring", func() bool { return len(copiesOf(r)) == count })
		for id, copies := range copiesOf(r) {
			if copies > 1 {
				t.Errorf("%s of %s rang %d times: %+v", id, a, copies,
					p.must(http.StatusOK, http.MethodGet, alarmPath(a, id), nil).Attempts)
			}
		}
	}
	eventually(t, "all late confirms are written", func() bool { return p.metric("clockd_ring_awaited") == 0 })
	for i := range count {
		if a := p.must(http.StatusOK, http.MethodGet, alarmPath("slow", fmt.Sprintf("order-%d", i)), nil); a.State != "rung" {
			t.Errorf("order-%d is %s: %s", i, a.State, a.LastError)
		}
	}
}
