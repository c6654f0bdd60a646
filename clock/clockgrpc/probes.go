package clockgrpc

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"connectrpc.com/connect"
	"connectrpc.com/grpchealth"
	"connectrpc.com/grpcreflect"

	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/clockgrpc/clockd/v1/clockdv1connect"
	"github.com/clockd/clockd/clock/front"
)

// probeBytes caps the messages of health checks and reflection.
const probeBytes = 4 << 10

// probeProcedures returns the procedures of the services that tools know: grpc.health.v1.Health, and
// grpc.reflection.v1.ServerReflection with its older name. Like /healthz, the health check needs no token. The
// reflection needs the role that reads the contract. Health/Watch is unimplemented: clients of gRPC then take the
// server as healthy.
func (s *Service) probeProcedures() []front.Procedure {
	options := []connect.HandlerOption{
		connect.WithInterceptors(failures{}), connect.WithReadMaxBytes(probeBytes),
		connect.WithCompression("gzip", nil, nil),
	}
	healthPath, health := grpchealth.NewHandler(s, options...)
	reflector := grpcreflect.NewStaticReflector(clockdv1connect.AlarmServiceName,
		clockdv1connect.ApplicationServiceName, grpchealth.HealthV1ServiceName)
	path, reflection := grpcreflect.NewHandlerV1(reflector, options...)
	olderPath, older := grpcreflect.NewHandlerV1Alpha(reflector, options...)
	return []front.Procedure{
		{Name: "rpcHealthCheck", Path: healthPath + "Check", Need: front.Need{Public: true}, BodyBytes: probeBytes,
			Handler: s.calls(health)},
		{Name: "rpcHealthWatch", Path: healthPath + "Watch", Need: front.Need{Public: true}, BodyBytes: probeBytes,
			Handler: s.calls(health)},
		{Name: "rpcReflection", Path: path + "ServerReflectionInfo", Need: front.Need{Right: access.Read, Lasting: true},
			Handler: s.calls(reflection)},
		{Name: "rpcReflectionAlpha", Path: olderPath + "ServerReflectionInfo", Need: front.Need{Right: access.Read, Lasting: true},
			Handler: s.calls(older)},
	}
}

// Check serves the health check: SERVING while /readyz is 200.
func (s *Service) Check(_ context.Context, request *grpchealth.CheckRequest) (*grpchealth.CheckResponse, error) {
	known := []string{"", clockdv1connect.AlarmServiceName, clockdv1connect.ApplicationServiceName}
	if !slices.Contains(known, request.Service) {
		return nil, connect.NewError(connect.CodeNotFound,
			fmt.Errorf("this server has no service %.100q", request.Service))
	}
	status := grpchealth.StatusNotServing
	if s.ready() {
		status = grpchealth.StatusServing
	}
	return &grpchealth.CheckResponse{Status: status}, nil
}

// calls returns a handler that serves each request as a call.
func (s *Service) calls(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.serve(handler, w, r) })
}
