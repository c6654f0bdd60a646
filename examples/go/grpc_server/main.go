// Command grpc_server is a server of gRPC with the method shop.v1.Alarms/Ring, which clockd calls for each ring. With
// the generated code of your own service it is shorter.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"net"
	"net/url"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// seen holds the message ids of handled rings. In production, store them in the transaction of the work.
var seen sync.Map

// ring handles a ring. The message is the payload of the alarm.
func ring(ctx context.Context, payload *wrapperspb.StringValue) (*emptypb.Empty, error) {
	values, _ := metadata.FromIncomingContext(ctx)
	first := func(name string) string { return append(values.Get("x-clockd-"+name), "")[0] }
	businessID, err := url.PathUnescape(first("business-id"))
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error()) // the alarm is dead: a repeat does not help
	}
	if _, copied := seen.LoadOrStore(first("message-id"), true); !copied {
		fmt.Println(businessID, payload.Value)
	}
	return &emptypb.Empty{}, nil // the ring counts as delivered and acknowledged
}

func main() {
	listener, err := net.Listen("tcp", cmp.Or(os.Getenv("LISTEN"), "127.0.0.1:8081"))
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer()
	server.RegisterService(&grpc.ServiceDesc{
		ServiceName: "shop.v1.Alarms", HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{{MethodName: "Ring", Handler: func(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			payload := new(wrapperspb.StringValue)
			if err := decode(payload); err != nil {
				return nil, err
			}
			return ring(ctx, payload)
		}}},
	}, nil)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, server.GracefulStop)
	log.Printf("listening on %s", listener.Addr())
	if err := server.Serve(listener); err != nil {
		log.Fatal(err)
	}
}
