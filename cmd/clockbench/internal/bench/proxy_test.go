package bench

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
)

// said holds bytes that one side sends.
type said struct {
	server bool
	bytes  []byte
}

func mysqlPacket(number byte, payload string) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), number}, payload...)
}

func postgresMessage(kind byte, payload string) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{kind}, uint32(4+len(payload))), payload...)
}

func amqpFrame(kind byte, payload string) []byte {
	b := binary.BigEndian.AppendUint32([]byte{kind, 0, 1}, uint32(len(payload)))
	return append(append(b, payload...), 0xce)
}

const (
	mysqlOKOpen = "\x00\x01\xfc\x00\x10\x03\x00\x00\x00" // 1 row, id 4096, autocommit and in a transaction
	mysqlOKIdle = "\x00\xfc\x00\x10\x00\x02\x00\x00\x00" // 4096 rows, autocommit
)

// TestCountsDoNotDependOnPieces parses the same bytes in pieces of several sizes.
func TestCountsDoNotDependOnPieces(t *testing.T) {
	type counts struct{ statements, roundTrips, transactions, framesOut, framesIn int64 }
	for _, test := range []struct {
		name     string
		protocol protocol
		said     []said
		want     counts
	}{
		{"mysql: a transaction, a statement alone, a read, an error", mysqlProtocol, []said{
			{true, mysqlPacket(0, "greeting")}, {false, mysqlPacket(1, "who I am")},
			{true, mysqlPacket(2, mysqlOKIdle)},
			{false, mysqlPacket(0, "\x03START TRANSACTION")}, {true, mysqlPacket(1, mysqlOKOpen)},
			{false, mysqlPacket(0, "\x03INSERT")}, {true, mysqlPacket(1, mysqlOKOpen)},
			{false, mysqlPacket(0, "\x03COMMIT")}, {true, mysqlPacket(1, mysqlOKIdle)},
			{false, mysqlPacket(0, "\x03INSERT")}, {true, mysqlPacket(1, mysqlOKIdle)},
			{false, mysqlPacket(0, "\x03SELECT")}, {true, mysqlPacket(1, "\x01")},
			{true, mysqlPacket(2, "\xfe\x00\x00\x02\x00")},
			{true, mysqlPacket(3, "\x00row")}, {true, mysqlPacket(4, "\xfe\x00\x00\x02\x00")},
			{false, mysqlPacket(0, "\x03INSERT")}, {true, mysqlPacket(1, "\xff\x48\x04error")},
			{false, mysqlPacket(0, "\x0e")}, {true, mysqlPacket(1, mysqlOKIdle)},
			{false, mysqlPacket(0, "\x19\x01\x00\x00\x00")}, {false, mysqlPacket(0, "\x01")},
		}, counts{statements: 6, roundTrips: 7, transactions: 3}},
		{"postgresql: a transaction, an extended query, a prepare", postgresProtocol, []said{
			{false, binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 12), 196608)},
			{false, []byte("user")},
			{true, postgresMessage('R', "\x00\x00\x00\x00")}, {true, postgresMessage('Z', "I")},
			{false, postgresMessage('Q', "begin")}, {true, postgresMessage('C', "BEGIN")},
			{true, postgresMessage('Z', "T")},
			{false, postgresMessage('P', "insert")}, {false, postgresMessage('S', "")},
			{true, postgresMessage('Z', "T")},
			{false, postgresMessage('B', "1")}, {false, postgresMessage('E', "")}, {false, postgresMessage('S', "")},
			{true, postgresMessage('D', "rows")}, {true, postgresMessage('Z', "T")},
			{false, postgresMessage('Q', "commit")}, {true, postgresMessage('Z', "I")},
			{false, postgresMessage('P', "select")}, {false, postgresMessage('S', "")},
			{true, postgresMessage('Z', "I")},
			{false, postgresMessage('B', "1")}, {false, postgresMessage('E', "")}, {false, postgresMessage('S', "")},
			{true, postgresMessage('Z', "I")},
		}, counts{statements: 4, roundTrips: 6, transactions: 2}},
		{"amqp: a message and its confirm", amqpProtocol, []said{
			{false, []byte("AMQP\x00\x00\x09\x01")}, {true, amqpFrame(amqpMethod, "start")},
			{false, amqpFrame(amqpMethod, "publish")}, {false, amqpFrame(amqpHeader, "header")},
			{false, amqpFrame(amqpBody, "body")},
			{true, amqpFrame(amqpMethod, "ack")}, {true, amqpFrame(amqpHeartbeat, "")},
		}, counts{framesOut: 3, framesIn: 3}},
	} {
		for _, piece := range []int{1, 3, 1 << 20} {
			var c proxyCounts
			toServer, fromServer := test.protocol(&c)
			for _, s := range test.said {
				side := toServer
				if s.server {
					side = fromServer
				}
				for b := s.bytes; len(b) > 0; b = b[min(piece, len(b)):] {
					side.take(b[:min(piece, len(b))])
				}
			}
			got := counts{c.statements.Load(), c.roundTrips.Load(), c.transactions.Load(), 0, 0}
			for kind := range frameTypes {
				got.framesOut += c.toServer.frames[kind].Load()
				got.framesIn += c.fromServer.frames[kind].Load()
			}
			if got != test.want {
				t.Errorf("%s, in pieces of %d: %+v, want %+v", test.name, piece, got, test.want)
			}
		}
	}
}

// TestProxyForwardsBytesUnchanged: forwarded bytes are unchanged, and close ends all connections.
func TestProxyForwardsBytesUnchanged(t *testing.T) {
	echo, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = echo.Close() }()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(conn, conn)
			_ = conn.Close()
		}
	}()
	w, err := newCountingProxy(t.Context(), echo.Addr().String(), amqpProtocol, nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", w.address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	said := "AMQP\x00\x00\x09\x01" + string(amqpFrame(amqpMethod, "one"))
	if _, err := io.WriteString(conn, said); err != nil {
		t.Fatal(err)
	}
	heard := make([]byte, len(said))
	if _, err := io.ReadFull(conn, heard); err != nil || string(heard) != said {
		t.Errorf("heard %q, %v", heard, err)
	}
	if n := w.counts.toServer.bytes.Load(); n != int64(len(said)) {
		t.Errorf("%d bytes were counted, want %d", n, len(said))
	}
	if err := w.close(); err != nil {
		t.Error(err)
	}
	if _, err := conn.Read(heard); err == nil {
		t.Error("the connection outlives the proxy")
	}
}

func TestOnlyPlainTCPIsProxied(t *testing.T) {
	for _, test := range []struct {
		url, scheme, query string
		counted            bool
	}{
		{"mysql://u:p@127.0.0.1/db?tls=true&x=1", "mysql", "x=1", true},
		{"postgres://u@127.0.0.1:1/db?sslmode=require", "postgres", "sslmode=disable", true},
		{"amqp://u:p@127.0.0.1/%2f", "amqp", "", true},
		{"amqps://u:p@127.0.0.1/", "amqps", "", false},
		{"sqlite:some.db", "sqlite", "", false},
		{"", "", "", false},
	} {
		w, url, err := proxied(t.Context(), test.url, nil)
		if err != nil || (w != nil) != test.counted || !test.counted && url != test.url {
			t.Errorf("%s: %s, %v", test.url, url, err)
		}
		if w == nil {
			continue
		}
		if err := w.close(); err != nil {
			t.Error(err)
		}
		if want := test.scheme + "://"; url[:len(want)] != want ||
			test.query != "" && url[len(url)-len(test.query):] != test.query {
			t.Errorf("%s: %s", test.url, url)
		}
	}
}
