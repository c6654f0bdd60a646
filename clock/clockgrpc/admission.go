package clockgrpc

import (
	"context"

	"connectrpc.com/connect"

	"github.com/clockd/clockd/clock/front"
)

// admission refuses calls for applications that the caller may not use. The server has checked the caller's role
// before.
type admission struct{}

// WrapUnary wraps a procedure with one response.
func (admission) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, request connect.AnyRequest) (connect.AnyResponse, error) {
		if err := callOf(ctx).admit(request.Any()); err != nil {
			return nil, err
		}
		return next(ctx, request)
	}
}

// WrapStreamingClient returns next, because this package has no client.
func (admission) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// WrapStreamingHandler wraps a procedure with a stream.
func (admission) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, conn connect.StreamingHandlerConn) error {
		return next(ctx, &admittedConn{StreamingHandlerConn: conn, call: callOf(ctx)})
	}
}

// admittedConn is a stream whose messages are admitted.
type admittedConn struct {
	connect.StreamingHandlerConn
	call *call
}

// Receive reads a message of the client.
func (c *admittedConn) Receive(message any) error {
	if err := c.StreamingHandlerConn.Receive(message); err != nil {
		return err
	}
	return c.call.admit(message)
}

// admit returns an error unless the caller may use the application of a request. A request without an application needs
// a caller for all.
func (c *call) admit(message any) error {
	request, ok := message.(interface{ GetApplication() string })
	if !ok {
		return front.Cover(c.request, "")
	}
	return front.Cover(c.request, request.GetApplication())
}
