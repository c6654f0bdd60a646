package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/timestamppb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// procedurePath returns the path of a procedure of the gRPC interface.
func procedurePath(name string) string { return "/clockd.v1.AlarmService/" + name }

// dialGRPC returns a connection to the port of the HTTP interface.
func (p *process) dialGRPC() *grpc.ClientConn {
	p.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+strings.TrimPrefix(p.url, "http://"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// setOverGRPC sets count alarms of the application in batches. Their business ids are order-0, order-1 and so on.
func (p *process) setOverGRPC(conn *grpc.ClientConn, application string, count int, due time.Time) {
	p.t.Helper()
	const batch = 500
	for from := 0; from < count; from += batch {
		request := &clockdv1.BatchRequest{Application: application}
		for i := from; i < min(from+batch, count); i++ {
			request.Set = append(request.Set, &clockdv1.AlarmSpec{
				BusinessId: fmt.Sprint("order-", i), Ring: &clockdv1.AlarmSpec_RingAt{RingAt: timestamppb.New(due)},
				Payload: &clockdv1.AlarmSpec_Json{Json: fmt.Sprintf(`{"n":%d}`, i)},
			})
		}
		response := new(clockdv1.BatchResponse)
		eventually(p.t, "a batch is set", func() bool { // unavailable while the database is busy
			return conn.Invoke(p.t.Context(), procedurePath("Batch"), request, response) == nil
		})
		for _, r := range response.Results {
			if r.Failure != nil {
				p.t.Fatalf("set: %v", r)
			}
		}
	}
}

// listenOverGRPC collects the application's rings from a stream until the test or the process ends. It returns after
// the first response.
func (p *process) listenOverGRPC(conn *grpc.ClientConn, application string) *receiver {
	p.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p.t.Cleanup(cancel)
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedurePath("Rings"))
	if err == nil {
		err = stream.SendMsg(&clockdv1.RingsRequest{Application: application})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	response := new(clockdv1.RingsResponse)
	if err == nil {
		err = stream.RecvMsg(response)
	}
	if err != nil {
		p.t.Fatalf("the stream of rings: %v", err)
	}
	r := &receiver{}
	go func() {
		for ; err == nil; err = stream.RecvMsg(response) {
			for _, ring := range response.Rings {
				r.add(receivedRing{
					messageID: ring.MessageId, businessID: ring.BusinessId, claimID: ring.ClaimId, body: ring.GetJson(),
					arrived: time.Now(), target: ring.RingAt.AsTime(),
				})
			}
		}
	}()
	return r
}

// A process is killed in the middle of a herd that it streams over gRPC. No alarm is lost. An alarm that it rang but
// did not settle rings again with the same message id.
func TestKillInMidHerdOverGRPCLosesNoRing(t *testing.T) {
	t.Parallel()
	for _, e := range chosen("sqlite") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			const count = 3000
			databaseURL := e.open(t)
			p := startOn(t, databaseURL, nil)
			conn := p.dialGRPC()
			got := p.listenOverGRPC(conn, "shop")
			p.setOverGRPC(conn, "shop", count, time.Now().Add(3*time.Second))
			eventually(t, "the herd begins to ring", func() bool { return got.number() > 0 })
			p.kill()
			p = startOn(t, databaseURL, nil)
			again := p.listenOverGRPC(p.dialGRPC(), "shop")
			rung := map[string]string{} // message ids by business id
			eventually(t, "everything rings", func() bool {
				for _, r := range append(got.all(), again.all()...) {
					if id := rung[r.businessID]; id != "" && id != r.messageID {
						t.Fatalf("%s rang as %s and as %s", r.businessID, id, r.messageID)
					}
					if want := `{"n":` + strings.TrimPrefix(r.businessID, "order-") + "}"; r.body != want ||
						r.arrived.Before(r.target) {
						t.Fatalf("%+v", r)
					}
					rung[r.businessID] = r.messageID
				}
				return len(rung) == count
			})
			t.Logf("%d rings before the kill, %d after it", got.number(), again.number())
		})
	}
}

// A graceful stop in the middle of a herd makes no duplicate, because the stream ends after the rings that it has
// begun.
func TestGracefulStopInMidHerdOverGRPCMakesNoDuplicate(t *testing.T) {
	t.Parallel()
	const count = 3000
	databaseURL := sqliteFile(t)
	p := startOn(t, databaseURL, nil)
	conn := p.dialGRPC()
	got := p.listenOverGRPC(conn, "shop")
	p.setOverGRPC(conn, "shop", count, time.Now().Add(3*time.Second))
	eventually(t, "the herd begins to ring", func() bool { return got.number() > 0 })
	if err := p.terminate(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	stopped := p
	p = startOn(t, databaseURL, nil)
	again := p.listenOverGRPC(p.dialGRPC(), "shop")
	eventually(t, "everything rings", func() bool { return len(copiesOf(got, again)) == count })
	p.requireOnce("shop", copiesOf(got, again), stopped)
}

// Subscribers share an application's rings on whatever node they are, over gRPC and as server-sent events.
func TestSubscribersOverGRPCShareRingsWithOtherNodes(t *testing.T) {
	t.Parallel()
	for _, e := range chosenShared("postgresql") {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			const count = 1000
			databaseURL := e.open(t)
			first, second := startOn(t, databaseURL, nil), startOn(t, databaseURL, nil)
			conn := second.dialGRPC()
			over, plain := second.listenOverGRPC(conn, "shop"), second.listen("shop")
			first.setOverGRPC(first.dialGRPC(), "shop", count, time.Now())
			eventually(t, "everything rings", func() bool { return len(copiesOf(over, plain)) == count })
			first.requireOnce("shop", copiesOf(over, plain), second)
			t.Logf("%d rings over gRPC, %d as events", over.number(), plain.number())
		})
	}
}
