package clockgrpc_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

func TestAdminChangesSettings(t *testing.T) {
	t.Parallel()
	w, bearers := demandTokens(t, "admin")
	s := start(t, func(su *setup) { su.access = w })
	conn := s.grpc()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", bearers["admin"])
	call := func(name string, request, response proto.Message) *failure {
		return grpcFailure(t, conn.Invoke(ctx, procedure(name), request, response))
	}
	get := func() *clockdv1.ApplicationSettings {
		t.Helper()
		var r clockdv1.GetSettingsResponse
		if f := call("GetSettings", &clockdv1.GetSettingsRequest{Application: "shop"}, &r); f != nil {
			t.Fatal(f)
		}
		return r.Settings
	}
	change := func(document string, ifVersion *int64) (*clockdv1.ApplicationSettings, *failure) {
		var r clockdv1.ChangeSettingsResponse
		f := call("ChangeSettings",
			&clockdv1.ChangeSettingsRequest{Application: "shop", Settings: document, IfVersion: ifVersion}, &r)
		return r.Settings, f
	}
	if none := get(); none.Version != 0 || none.ChangedAt != nil || none.Settings != "{}" || none.AppliedVersion != 7 ||
		none.AppliedTarget != "stream" || !strings.Contains(none.Effective, `"max_rings":10`) {
		t.Errorf("before: %v", none)
	}
	const hook = `{"webhook":{"url":"https://a.example/","headers":{"x-key":"hush"},` +
		`"secrets":["whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"]}}`
	made, f := change(hook, new(int64(0)))
	if f != nil || made.Version != 1 || made.ChangedBy != "admin" ||
		clock.InstantOf(made.ChangedAt.AsTime()) != settingsTime {
		t.Fatalf("%v, %v", made, f)
	}
	if shown := get(); !proto.Equal(shown, made) || strings.Contains(shown.String(), "hush") ||
		strings.Contains(shown.String(), "C2FV") {
		t.Errorf("shown are %v", shown)
	}
	after, f := change(strings.Replace(made.Settings, "15s", "20s", 1), new(int64(1)))
	if f != nil || after.Version != 2 {
		t.Errorf("%v, %v", after, f)
	}
	if v, err := s.store.Settings(t.Context(), "shop"); err != nil || !strings.Contains(v.Document, "hush") ||
		!strings.Contains(v.Document, `"20s"`) {
		t.Errorf("stored are %+v, %v", v, err)
	}
	acts, err := s.store.Acts(t.Context(), clock.ActsQuery{Limit: 1})
	if err != nil || acts[0].Action != "settings" || acts[0].Name != "admin" || acts[0].Token == "" ||
		acts[0].From != "127.0.0.1" {
		t.Errorf("audit: %+v, %v", acts, err)
	}
	for _, c := range []struct {
		document    string
		ifVersion   *int64
		code        codes.Code
		cause, part string
	}{
		{`{}`, new(int64(1)), codes.Aborted, clock.CodeConditionFailed, "if_version"},
		{`{}`, new(int64(-1)), codes.InvalidArgument, clock.CodeOutOfRange, "if_version"},
		{``, nil, codes.InvalidArgument, clock.CodeRequired, "settings"},
		{`{"max_rings":0}`, nil, codes.InvalidArgument, clock.CodeOutOfRange, "max_rings"},
		{`{"webhook":{"url":"https://b.example/?...","secrets":["whsec_..."]}}`, nil, codes.InvalidArgument,
			clock.CodeInvalidValue, "webhook.url"},
	} {
		_, f := change(c.document, c.ifVersion)
		if f == nil || f.code != c.code || f.problem.GetCode() != c.cause || f.problem.GetField() != c.part {
			t.Errorf("%s: %v", c.document, f)
		}
	}
	if now := get(); now.Version != 2 {
		t.Errorf("after refused changes: %v", now)
	}
}

// Without tokens nobody changes settings over the network.
func TestOpenServiceDoesNotChangeSettings(t *testing.T) {
	t.Parallel()
	for _, c := range start(t).callers() {
		f := c.call(context.Background(), "ChangeSettings",
			&clockdv1.ChangeSettingsRequest{Application: "shop", Settings: `{"target":"stream"}`},
			&clockdv1.ChangeSettingsResponse{})
		if f == nil || f.code != codes.PermissionDenied || !strings.Contains(f.text, "needs an access token") {
			t.Errorf("%s: %v", c.name, f)
		}
	}
}
