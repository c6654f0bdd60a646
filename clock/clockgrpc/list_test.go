package clockgrpc_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
	"github.com/clockd/clockd/clock/front"
)

// walk follows the cursors of a list. It returns the business ids and the number of pages.
func walk(t *testing.T, c caller, request *clockdv1.ListRequest) (ids []string, pages int) {
	t.Helper()
	for pages = 1; ; pages++ {
		page := must(t, c, "List", request, &clockdv1.ListResponse{})
		for _, a := range page.Alarms {
			ids = append(ids, a.BusinessId)
		}
		if page.NextCursor == "" || pages > 100 {
			return ids, pages
		}
		request.Cursor = page.NextCursor
	}
}

func TestListWalksThroughAllAlarms(t *testing.T) {
	t.Parallel()
	s := start(t)
	grpc := s.callers()[0]
	var want []string
	for i := range 25 {
		id := fmt.Sprintf("order-%02d", i)
		want = append(want, id)
		must(t, grpc, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: alarm(id, time.Hour)},
			&clockdv1.SetResponse{})
	}
	must(t, grpc, "Cancel", &clockdv1.CancelRequest{Application: "shop", BusinessId: want[3]},
		&clockdv1.CancelResponse{})
	forEach(t, s, func(t *testing.T, c caller, id string) {
		if ids, pages := walk(t, c, &clockdv1.ListRequest{Application: "shop", Limit: 10}); !slices.Equal(ids, want) ||
			pages != 3 {
			t.Errorf("%v in %d pages", ids, pages)
		}
		if ids, _ := walk(t, c, &clockdv1.ListRequest{Application: "shop", States: []clockdv1.State{clockdv1.State_STATE_CANCELLED}}); !slices.Equal(ids, want[3:4]) {
			t.Errorf("cancelled: %v", ids)
		}
		if ids, _ := walk(t, c, &clockdv1.ListRequest{Application: "shop", Prefix: "order-1"}); !slices.Equal(ids, want[10:20]) {
			t.Errorf("prefix: %v", ids)
		}
		if ids, _ := walk(t, c, &clockdv1.ListRequest{Application: "shop", DueBefore: timestamppb.Now()}); len(ids) != 0 {
			t.Errorf("due: %v", ids)
		}
		if ids, _ := walk(t, c, &clockdv1.ListRequest{Application: "shop", DueAfter: timestamppb.Now()}); len(ids) != 24 {
			t.Errorf("not due: %v", ids)
		}
	})
}

// Both interfaces read the same cursors.
func TestCursorOfTheHTTPInterfaceIsTaken(t *testing.T) {
	t.Parallel()
	s := start(t)
	grpc := s.callers()[0]
	for _, id := range []string{"a", "b"} {
		must(t, grpc, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: alarm(id, time.Hour)},
			&clockdv1.SetResponse{})
	}
	response, err := s.web.Get("http://" + s.addr + "/v1/applications/shop/alarms?limit=1")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct {
		Cursor string `json:"next_cursor"`
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	if ids, _ := walk(t, grpc, &clockdv1.ListRequest{Application: "shop", Cursor: page.Cursor}); !slices.Equal(ids, []string{"b"}) {
		t.Errorf("behind the first alarm: %v", ids)
	}
}

// gRPC clients refuse messages over 4 MiB by default.
func TestPageOfLargeAlarmsFitsIntoAMessage(t *testing.T) {
	t.Parallel()
	s := start(t)
	c := s.callers()[0]
	for i := range 80 {
		spec := alarm(fmt.Sprint("order-", i), time.Hour)
		spec.Payload = &clockdv1.AlarmSpec_Text{Text: strings.Repeat("x", 64<<10)}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
	}
	page := must(t, c, "List", &clockdv1.ListRequest{Application: "shop", Limit: 80}, &clockdv1.ListResponse{})
	if size := proto.Size(page); size > 4<<20 || len(page.Alarms) < 60 || page.NextCursor == "" {
		t.Errorf("%d alarms, %d bytes, cursor %q", len(page.Alarms), size, page.NextCursor)
	}
	if ids, _ := walk(t, c, &clockdv1.ListRequest{Application: "shop", Limit: 80}); len(ids) != 80 {
		t.Errorf("%d alarms in all pages", len(ids))
	}
}

func TestFaultsOfListsAreRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		for field, request := range map[string]*clockdv1.ListRequest{
			"application": {Application: "no app"},
			"limit":       {Application: "shop", Limit: 1001},
			"states":      {Application: "shop", States: []clockdv1.State{257}},
			"due_after":   {Application: "shop", DueAfter: &timestamppb.Timestamp{Seconds: -1}},
			"due_before":  {Application: "shop", DueBefore: &timestamppb.Timestamp{Seconds: -1}},
			"cursor":      {Application: "shop", Cursor: "x"},
			"prefix":      {Application: "shop", Prefix: "\n"},
		} {
			if f := c.call(t.Context(), "List", request, &clockdv1.ListResponse{}); f == nil ||
				f.code != codes.InvalidArgument || f.problem.GetField() != field {
				t.Errorf("%s: %v", field, f)
			}
		}
	})
}

func TestReadWithoutMemoryIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t)
	forEach(t, s, func(t *testing.T, c caller, id string) {
		spec := alarm(id, time.Hour)
		spec.Payload = &clockdv1.AlarmSpec_Text{Text: "text"}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{})
		const all = 32 << 20
		s.server.Front().Memory.Force(front.Responses, all)
		defer s.server.Front().Memory.Give(front.Responses, all)
		for name, call := range map[string]func() *failure{
			"Get": func() *failure {
				return c.call(t.Context(), "Get", &clockdv1.GetRequest{Application: "shop", BusinessId: id},
					&clockdv1.GetResponse{})
			},
			"List": func() *failure {
				return c.call(t.Context(), "List", &clockdv1.ListRequest{Application: "shop"}, &clockdv1.ListResponse{})
			},
		} {
			if f := call(); f == nil || f.code != codes.Unavailable || f.problem.GetCode() != "overloaded" ||
				f.problem.GetRetryAfter().GetSeconds() != 1 {
				t.Errorf("%s: %v", name, f)
			}
		}
		must(t, c, "Set", &clockdv1.SetRequest{Application: "shop", Alarm: spec}, &clockdv1.SetResponse{}) // a change gets its response
	})
	if metric := "clockd_http_memory_bytes"; s.memory("answers") != 0 {
		t.Errorf("%s is %v", metric, s.memory("answers"))
	}
}

func TestHostGuardsTheProcedures(t *testing.T) {
	t.Parallel()
	s := start(t)
	const get = `{"application":"shop","business_id":"a"}`
	for _, c := range []struct {
		problem, name, body, contentType string
		code                             codes.Code
		header                           []string
	}{
		{"unknown_host", "Get", get, "application/json", codes.PermissionDenied, []string{"Host", "evil.example"}},
		{"cross_site", "Get", get, "application/json", codes.PermissionDenied,
			[]string{"Origin", "http://evil.example"}},
		{"body_too_large", "Get", `{"application":"` + strings.Repeat("x", 20<<10) + `"}`, "application/json",
			codes.InvalidArgument, nil},
		{"unsupported_media_type", "Get", get, "application/json", codes.InvalidArgument,
			[]string{"Content-Encoding", "gzip"}},
	} {
		_, _, body := s.do(t.Context(), procedure(c.name), c.contentType, c.body, c.header...)
		if f := connectFailure(t, body); f.code != c.code || f.problem.GetCode() != c.problem {
			t.Errorf("%s: %v", c.problem, f)
		}
	}
	if status, _, _ := s.do(t.Context(), procedure("Nothing"), "application/json", "{}"); status != http.StatusNotFound {
		t.Errorf("an unknown procedure: %d", status)
	}
	large := &clockdv1.GetRequest{Application: "shop", BusinessId: strings.Repeat("x", 20<<10)}
	if f := grpcFailure(t, s.grpc().Invoke(t.Context(), procedure("Get"), large, &clockdv1.GetResponse{})); f.code != codes.InvalidArgument || f.problem.GetCode() != "body_too_large" {
		t.Errorf("gRPC: %v", f)
	}
	foreign := s.grpc(withAuthority("evil.example"))
	if f := grpcFailure(t, foreign.Invoke(t.Context(), procedure("Get"), &clockdv1.GetRequest{}, &clockdv1.GetResponse{})); f.code != codes.PermissionDenied || f.problem.GetCode() != "unknown_host" {
		t.Errorf("gRPC: %v", f)
	}
	err := s.grpc().Invoke(t.Context(), procedure("Get"), &clockdv1.GetRequest{}, &clockdv1.GetResponse{}, compressed)
	if f := grpcFailure(t, err); f.code != codes.Unimplemented {
		t.Errorf("a compressed request: %v", f)
	}
}
