package clockgrpc_test

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

// tokenSource is a database of tokens that do not change.
type tokenSource []access.Token

func (s tokenSource) TokenChanges(context.Context) (int64, error)       { return 1, nil }
func (s tokenSource) AllTokens(context.Context) ([]access.Token, error) { return s, nil }
func (s tokenSource) UseTokens(context.Context, []access.Use) error     { return nil }

// procedureRoles holds the roles that may call each procedure. A procedure without an entry fails the test.
var procedureRoles = map[string]struct {
	roles   []string
	request func(application string) (request, response proto.Message)
}{
	"Set": {[]string{"application", "operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.SetRequest{Application: a}, &clockdv1.SetResponse{}
	}},
	"Cancel": {[]string{"application", "operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.CancelRequest{Application: a}, &clockdv1.CancelResponse{}
	}},
	"Batch": {[]string{"application", "operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.BatchRequest{Application: a}, &clockdv1.BatchResponse{}
	}},
	"Pause": {[]string{"operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.PauseRequest{Application: a}, &clockdv1.PauseResponse{}
	}},
	"Resume": {[]string{"operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.ResumeRequest{Application: a}, &clockdv1.ResumeResponse{}
	}},
	"Trigger": {[]string{"operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.TriggerRequest{Application: a}, &clockdv1.TriggerResponse{}
	}},
	"Backfill": {[]string{"operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.BackfillRequest{Application: a}, &clockdv1.BackfillResponse{}
	}},
	"EndBackfill": {[]string{"operator", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.EndBackfillRequest{Application: a}, &clockdv1.EndBackfillResponse{}
	}},
	"Get": {access.RoleNames, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.GetRequest{Application: a}, &clockdv1.GetResponse{}
	}},
	"List": {access.RoleNames, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.ListRequest{Application: a}, &clockdv1.ListResponse{}
	}},
	"Occurrences": {access.RoleNames, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.OccurrencesRequest{Application: a}, &clockdv1.OccurrencesResponse{}
	}},
	"GetSettings": {access.RoleNames, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.GetSettingsRequest{Application: a}, &clockdv1.GetSettingsResponse{}
	}},
	"ChangeSettings": {[]string{"admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.ChangeSettingsRequest{Application: a}, &clockdv1.ChangeSettingsResponse{}
	}},
	"Rings": {[]string{"application", "admin"}, nil}, // a stream
	"Answer": {[]string{"application", "admin"}, func(a string) (proto.Message, proto.Message) {
		return &clockdv1.AnswerRequest{Application: a}, &clockdv1.AnswerResponse{}
	}},
}

// procedureNames returns the names of the procedures of all services.
func procedureNames() (names []string) {
	services := clockdv1.File_clockd_v1_clockd_proto.Services()
	for i := range services.Len() {
		methods := services.Get(i).Methods()
		for j := range methods.Len() {
			names = append(names, string(methods.Get(j).Name()))
		}
	}
	return names
}

// demandTokens returns the access of a service that demands a token, and the text of a token for the application shop
// by role.
func demandTokens(t *testing.T, roles ...string) (w *access.Watch, bearers map[string]string) {
	t.Helper()
	var source tokenSource
	bearers = map[string]string{}
	for _, name := range roles {
		role, err := access.ParseRole(name)
		if err != nil {
			t.Fatal(err)
		}
		text := access.NewText()
		token, err := access.New(text, name, role, access.Applications{"shop"}, 1, "test")
		if err != nil {
			t.Fatal(err)
		}
		source, bearers[name] = append(source, *token), "Bearer "+text.String()
	}
	w = access.NewWatch(access.Config{Mode: access.Required}, access.Deps{
		Source: source, Now: func() (clock.Instant, error) { return 2, nil }, Log: slog.New(slog.DiscardHandler),
	})
	if err := w.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w, bearers
}

// TestEveryProcedureNeedsItsRoleAndApplication calls every procedure with every role, for an application that the token
// covers and for another one. Only the refusal counts: an allowed call may fail otherwise.
func TestEveryProcedureNeedsItsRoleAndApplication(t *testing.T) {
	t.Parallel()
	w, bearers := demandTokens(t, access.RoleNames...)
	bearers["none"] = ""
	s := start(t, func(su *setup) { su.access = w })
	conn := s.grpc()
	for _, name := range procedureNames() {
		c, known := procedureRoles[name]
		if !known {
			t.Errorf("%s has no entry in procedureRoles", name)
			continue
		}
		for role, bearer := range bearers {
			for _, application := range []string{"shop", "bank"} {
				if role == "none" && application == "bank" {
					continue // an address may have only a few failures at once
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				if bearer != "" {
					ctx = metadata.AppendToOutgoingContext(ctx, "authorization", bearer)
				}
				var got *failure
				if c.request == nil {
					got = ringsFailure(ctx, t, conn, application)
				} else {
					request, response := c.request(application)
					got = grpcFailure(t, conn.Invoke(ctx, procedure(name), request, response))
				}
				cancel()
				want := codes.OK
				switch {
				case role == "none":
					want = codes.Unauthenticated
				case !slices.Contains(c.roles, role) || application != "shop":
					want = codes.PermissionDenied
				}
				refused := got != nil && (got.code == codes.Unauthenticated || got.code == codes.PermissionDenied)
				if refused != (want != codes.OK) ||
					refused &&
						(got.code != want ||
							!strings.HasPrefix(want.String(), map[string]string{clock.CodeForbidden: "Permission", clock.CodeUnauthenticated: "Unauth"}[got.problem.GetCode()])) {
					t.Errorf("%s for %s as %s: %v, want %v", name, application, role, got, want)
				}
			}
		}
	}
}

// ringsFailure opens a stream of rings and returns the failure before its first response, nil if there was a response.
func ringsFailure(ctx context.Context, t *testing.T, conn *grpc.ClientConn, application string) *failure {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, procedure("Rings"))
	if err == nil {
		err = stream.SendMsg(&clockdv1.RingsRequest{Application: application})
	}
	if err == nil {
		err = stream.CloseSend()
	}
	if err == nil {
		err = stream.RecvMsg(&clockdv1.RingsResponse{})
	}
	return grpcFailure(t, err)
}
