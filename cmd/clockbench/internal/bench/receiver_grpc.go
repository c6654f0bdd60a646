package bench

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
)

// grpcMethod is the method that clockd calls.
const grpcMethod = "clockbench.Rings/Ring"

// calls receives rings as calls of gRPC.
type calls struct {
	tallyHolder
	server  *grpc.Server
	address string
	done    chan struct{} // closed when the server has ended
}

var _ server = (*calls)(nil)

// newCalls starts a server.
func newCalls(ctx context.Context, _ *Config) (server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &calls{address: listener.Addr().String(), done: make(chan struct{})}
	c.server = grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}), grpc.UnknownServiceHandler(c.handle))
	go func() {
		defer close(c.done)
		_ = c.server.Serve(listener) // Close ends it
	}()
	return c, nil
}

// bytesCodec takes messages as they are.
type bytesCodec struct{}

var _ encoding.Codec = bytesCodec{}

// Marshal returns the bytes of the message.
func (bytesCodec) Marshal(v any) ([]byte, error) {
	message, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no message", v)
	}
	return *message, nil
}

// Unmarshal makes the bytes the message.
func (bytesCodec) Unmarshal(b []byte, v any) error {
	message, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("%T is no message", v)
	}
	*message = append((*message)[:0], b...)
	return nil
}

// Name returns the name of the codec.
func (bytesCodec) Name() string { return "proto" }

// handle takes a ring.
func (c *calls) handle(_ any, stream grpc.ServerStream) error {
	var payload []byte
	if err := stream.RecvMsg(&payload); err != nil {
		return err
	}
	sent, _ := metadata.FromIncomingContext(stream.Context())
	field := func(name string) []byte { return []byte(strings.Join(sent.Get(name), "")) }
	rungAt, _ := strconv.ParseInt(string(field(headerRungAt)), 10, 64) // 0 is no time
	c.take(&ring{
		messageID: field("x-clockd-message-id"), businessID: field(headerBusinessID), payload: payload, rungAt: rungAt,
		at: time.Now(),
	})
	return stream.SendMsg(new([]byte))
}

// Settings returns the method.
func (c *calls) Settings() []string {
	return []string{"--target=grpc", "--grpc-url=http://" + c.address, "--grpc-method=" + grpcMethod,
		fmt.Sprintf("--grpc=concurrency=%d", receiverConcurrency)}
}

// Environment allows the server's address.
func (c *calls) Environment() []string { return []string{"CLOCKD_WEBHOOK_ALLOW=127.0.0.1"} }

// Consume takes rings into the tally.
func (c *calls) Consume(_ context.Context, _ string, t *tally) (*consumer, error) {
	return c.consume(t), nil
}

// Close ends the server.
func (c *calls) Close() error {
	c.server.Stop()
	<-c.done
	return nil
}

// Sender returns a client of grpc-go with the same metadata as clockd's calls.
func (c *calls) Sender(ctx context.Context, table bareTable) (*bareRinger, error) {
	conn, err := grpc.NewClient(c.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	send := func(r *bareRing) error {
		pairs := []string{"x-clockd-message-id", r.messageID(), "x-clockd-content-type", contentType}
		setRing(func(name, value string) { pairs = append(pairs, name, value) }, r)
		return conn.Invoke(metadata.AppendToOutgoingContext(ctx, pairs...), "/"+grpcMethod, &r.payload, new([]byte),
			grpc.ForceCodec(bytesCodec{}))
	}
	return sendEach(table, send, func() { _ = conn.Close() }), nil
}
