package clockgrpc_test

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestHealthCheckFollowsReadiness(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unready bool
		want    grpc_health_v1.HealthCheckResponse_ServingStatus
	}{
		"ready":     {false, grpc_health_v1.HealthCheckResponse_SERVING},
		"not ready": {true, grpc_health_v1.HealthCheckResponse_NOT_SERVING},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(su *setup) { su.unready = c.unready })
			health := grpc_health_v1.NewHealthClient(s.grpc(withAuthority("any.example"))) // probes may use any server name
			for _, service := range []string{"", "clockd.v1.AlarmService"} {
				if a, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service}); err != nil || a.Status != c.want {
					t.Errorf("service %q is %v, %v", service, a.GetStatus(), err)
				}
			}
			if _, err := health.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: "unknown"}); status.Code(err) != codes.NotFound {
				t.Errorf("an unknown service: %v", err)
			}
			watch, err := health.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
			if err == nil {
				_, err = watch.Recv()
			}
			if status.Code(err) != codes.Unimplemented {
				t.Errorf("a watch: %v", err)
			}
			if got, _, body := s.do(t.Context(), "/grpc.health.v1.Health/Check", "application/json", "{}"); got != 200 || !strings.Contains(string(body), c.want.String()) {
				t.Errorf("over Connect: %d, %s", got, body)
			}
		})
	}
}

// reflect asks the server for a file with a symbol, and for its services.
func reflect(
	ctx context.Context, t *testing.T, s *service,
) (services []string, file *descriptorpb.FileDescriptorProto, err error) {
	t.Helper()
	stream, err := grpc_reflection_v1.NewServerReflectionClient(s.grpc()).ServerReflectionInfo(ctx)
	if err != nil {
		return nil, nil, err
	}
	ask := func(r *grpc_reflection_v1.ServerReflectionRequest) (*grpc_reflection_v1.ServerReflectionResponse, error) {
		if err := stream.Send(r); err != nil && err != io.EOF { // after io.EOF, Recv has the error
			return nil, err
		}
		return stream.Recv()
	}
	a, err := ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}})
	if err != nil {
		return nil, nil, err
	}
	for _, found := range a.GetListServicesResponse().GetService() {
		services = append(services, found.Name)
	}
	a, err = ask(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: "clockd.v1.AlarmService"}})
	if err != nil {
		return nil, nil, err
	}
	file = &descriptorpb.FileDescriptorProto{}
	if err := proto.Unmarshal(a.GetFileDescriptorResponse().GetFileDescriptorProto()[0], file); err != nil {
		t.Fatal(err)
	}
	return services, file, stream.CloseSend()
}

func TestReflectionShowsTheService(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) { su.web.DrainTimeout = time.Hour })
	services, file, err := reflect(t.Context(), t, s)
	const known = "clockd.v1.AlarmService clockd.v1.ApplicationService grpc.health.v1.Health"
	if err != nil || strings.Join(services, " ") != known ||
		file.GetName() != "clockd/v1/clockd.proto" {
		t.Errorf("services %v, file %s, %v", services, file.GetName(), err)
	}
	stream := &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}
	older, err := s.grpc().NewStream(t.Context(), stream, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo") // its messages are those of v1
	if err != nil {
		t.Fatal(err)
	}
	if err := older.SendMsg(&grpc_reflection_v1.ServerReflectionRequest{MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	a := &grpc_reflection_v1.ServerReflectionResponse{}
	if err := older.RecvMsg(a); err != nil || len(a.GetListServicesResponse().GetService()) != 3 {
		t.Errorf("v1alpha: %v, %v", a, err)
	}
	s.endServer() // the open stream does not hold up the end
	if older.RecvMsg(a) == nil {
		t.Error("the stream goes on after the end of the server")
	}
}

func TestReflectionNeedsATokenAndTheHealthCheckDoesNot(t *testing.T) {
	t.Parallel()
	w, bearers := demandTokens(t, "reader")
	s := start(t, func(su *setup) { su.access = w })
	if _, _, err := reflect(t.Context(), t, s); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without a token: %v", err)
	}
	if _, _, err := reflect(metadata.AppendToOutgoingContext(t.Context(), "authorization", bearers["reader"]), t, s); err != nil {
		t.Errorf("as a reader: %v", err)
	}
	if _, err := grpc_health_v1.NewHealthClient(s.grpc()).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
		t.Errorf("the health check: %v", err)
	}
}

func TestGetAndListShowWhyAnAlarmDoesNotRing(t *testing.T) {
	t.Parallel()
	s := start(t, func(su *setup) {
		su.blocked = []clock.Blocker{{Code: clock.BlockedByHold, Target: "webhook",
			Detail: "no ring is delivered"}}
	})
	conn := s.grpc()
	set := &clockdv1.SetRequest{Application: "shop", Alarm: alarm("a", time.Hour)}
	if err := conn.Invoke(t.Context(), procedure("Set"), set, &clockdv1.SetResponse{}); err != nil {
		t.Fatal(err)
	}
	var one clockdv1.GetResponse
	var all clockdv1.ListResponse
	if err := conn.Invoke(t.Context(), procedure("Get"), &clockdv1.GetRequest{Application: "shop", BusinessId: "a"}, &one); err != nil {
		t.Fatal(err)
	}
	if err := conn.Invoke(t.Context(), procedure("List"), &clockdv1.ListRequest{Application: "shop"}, &all); err != nil {
		t.Fatal(err)
	}
	want := &clockdv1.Blocker{Code: "held", Target: "webhook", Detail: "no ring is delivered"}
	for name, a := range map[string]*clockdv1.Alarm{"Get": one.Alarm, "List": all.Alarms[0]} {
		if len(a.Blockers) != 1 || !proto.Equal(a.Blockers[0], want) {
			t.Errorf("%s shows %v", name, a.Blockers)
		}
	}
}
