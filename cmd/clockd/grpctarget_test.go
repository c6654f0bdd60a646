package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/clockd/clockd/clock"
)

// called is a server whose method takes the rings of applications. It refuses every seventh call at first, and is slow
// for others.
type called struct {
	*receiver

	mu    sync.Mutex
	calls int
}

// ring answers a call. The messages are texts of protobuf.
func (c *called) ring(_ any, s grpc.ServerStream) error {
	given, _ := metadata.FromIncomingContext(s.Context())
	message := new(wrapperspb.StringValue)
	if err := s.RecvMsg(message); err != nil {
		return err
	}
	c.mu.Lock()
	c.calls++
	n := c.calls
	c.mu.Unlock()
	switch {
	case n%7 == 0:
		return status.Error(codes.Unavailable, "not now")
	case n%11 == 0:
		time.Sleep(400 * time.Millisecond) //nolint:forbidigo // a slow receiver
	}
	id, _ := url.PathUnescape(given.Get("x-clockd-business-id")[0])
	var targetMS int64
	_, _ = fmt.Sscan(given.Get("x-clockd-target-ring-at")[0], &targetMS)
	c.add(receivedRing{
		messageID: given.Get("x-clockd-message-id")[0], businessID: id, body: message.Value, arrived: time.Now(),
		target: time.UnixMilli(targetMS),
	})
	return s.SendMsg(&emptypb.Empty{})
}

func startCalled(t *testing.T) (c *called, address string) {
	t.Helper()
	c = &called{receiver: &receiver{}}
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnknownServiceHandler(c.ring))
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(l) })
	t.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	return c, "http://" + l.Addr().String()
}

// A method of gRPC refuses some rings and is slow for some. A node is killed in the middle. Every alarm arrives, none
// early, and all copies of a ring have one message id. The message is the payload, byte for byte: here an encoded
// message of protobuf.
func TestMethodsAreCalledAlsoAfterAKill(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			databaseURL := e.open(t)
			c, address := startCalled(t)
			env := []string{"CLOCKD_DATABASE_URL=" + databaseURL, "CLOCKD_WEBHOOK_ALLOW=127.0.0.1"}
			survivor := start(t, env...)
			victim := survivor
			if e.name != "sqlite" { // a file has one node
				victim = start(t, env...)
			}
			application(t, databaseURL, "set", "shop", "--target=grpc", "--grpc-url="+address,
				"--grpc-method=shop.v1.Alarms/Ring", "--grpc=timeout=5s")
			for _, p := range []*process{survivor, victim} {
				eventually(t, "the node applies the target",
					func() bool { return p.settings("shop").AppliedTarget == "grpc" })
			}
			const alarms = 300
			for i := range alarms {
				victim.must(http.StatusCreated, http.MethodPut, alarmPath("shop", fmt.Sprintf("order/%d", i)), map[string]any{
					"delay": fmt.Sprintf("%dms", 500+i*37%2500), "base64": protoText(fmt.Sprint("payload ", i)),
					"retry": map[string]any{"initial": "100ms", "cap": "1s"},
				})
			}
			eventually(t, "rings arrive", func() bool { return c.number() > alarms/10 })
			victim.kill()
			if victim == survivor {
				survivor = start(t, env...)
			}
			eventually(t, "all alarms are rung", func() bool { return survivor.inState("shop", clock.Rung) == alarms })
			distinct, copies := c.byID()
			for i := range alarms {
				if id := fmt.Sprintf("order/%d", i); distinct[id] != 1 {
					t.Errorf("alarm %s arrived under %d message ids", id, distinct[id])
				}
			}
			for _, r := range c.all() {
				if want := "payload " + strings.TrimPrefix(r.businessID, "order/"); r.arrived.Before(r.target) ||
					r.body != want {
					t.Errorf("%s arrived %s after its time, with %q", r.businessID, r.arrived.Sub(r.target), r.body)
				}
			}
			if len(copies) != alarms {
				t.Errorf("%d of %d alarms arrived", len(copies), alarms)
			}
			t.Logf("%d rings, %d of them copies", c.number(), c.number()-alarms)
		})
	}
}

// protoText returns the encoding of a message of protobuf that holds a text, in base64.
func protoText(text string) string {
	b, err := proto.Marshal(wrapperspb.String(text))
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(b)
}
