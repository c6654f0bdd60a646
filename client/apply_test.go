package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/faulty"
)

// sets returns n sets with ids of their own.
func sets(n int) []client.Change {
	changes := make([]client.Change, n)
	for i := range changes {
		changes[i] = client.Change{BusinessID: fmt.Sprintf("order-%05d", i),
			Set: &client.Set{When: client.After(time.Hour), Payload: client.Text("x")}}
	}
	return changes
}

// apply collects the results and the error of a stream of changes.
func apply(
	ctx context.Context, c *client.Client, app string, changes iter.Seq[client.Change],
) (results []client.Result, err error) {
	for r, failed := range c.Apply(ctx, app, changes) {
		if failed != nil {
			return results, failed
		}
		results = append(results, r)
	}
	return results, nil
}

// applyAll applies the changes in a stream, and the changes that the busy service refused in further streams. It
// returns the last result of each change. Every stream must have one result for each change, in order.
func applyAll(t *testing.T, c *client.Client, app string, changes []client.Change) []client.Result {
	t.Helper()
	last := make([]client.Result, len(changes))
	positions := make([]int, len(changes)) // of the changes in this stream
	for i := range positions {
		positions[i] = i
	}
	for len(positions) > 0 {
		stream := make([]client.Change, len(positions))
		for i, p := range positions {
			stream[i] = changes[p]
		}
		results, err := apply(t.Context(), c, app, slices.Values(stream))
		if err != nil || len(results) != len(stream) {
			t.Fatalf("%d results for %d changes: %v", len(results), len(stream), err)
		}
		var refused []int
		for i, r := range results {
			if r.Line != int64(i+1) || r.BusinessID != stream[i].BusinessID && r.Code != "line_too_long" {
				t.Fatalf("result %d: %+v", i, r)
			}
			if last[positions[i]] = r; r.Status == http.StatusServiceUnavailable {
				refused = append(refused, positions[i])
			}
		}
		positions = refused
	}
	return last
}

func TestApplyReturnsOneResultForEachChangeInOrder(t *testing.T) {
	t.Parallel()
	c, app := dial(t, serverURL), applicationOf(t)
	for i, r := range applyAll(t, c, app, sets(5000)) {
		if r.Status != 201 {
			t.Fatalf("result %d: %+v", i, r)
		}
	}
	rest := applyAll(t, c, app, []client.Change{
		{BusinessID: "order-00042"}, {BusinessID: "none"},
		{BusinessID: "lines",
			Set: &client.Set{When: client.After(time.Hour), Payload: client.RawJSON([]byte("{\n\"a\":\r\n1}"))}},
		{BusinessID: "long",
			Set: &client.Set{When: client.After(time.Hour), Payload: client.Text(strings.Repeat("x", 200<<10))}},
		{BusinessID: "last", Set: &client.Set{When: client.After(time.Hour)}},
	})
	if rest[0].State != client.Cancelled || rest[2].Status != 201 || rest[4].Status != 201 {
		t.Errorf("%+v", rest)
	}
	refused(t, rest[1].Err(), client.CodeUnknownAlarm)
	refused(t, rest[3].Err(), "line_too_long")
	if a, err := c.Get(t.Context(), app, "lines"); err != nil || a.Payload.String() != "{ \"a\":  1}" {
		t.Errorf("payload: %+v, %v", a, err)
	}
}

// Each change is made only when the result of the one before it is known, so both directions must flow at the same
// time.
func TestApplyIsFullDuplex(t *testing.T) {
	t.Parallel()
	c, app := dial(t, serverURL), applicationOf(t)
	known := make(chan string, 1)
	known <- "start"
	changes := func(yield func(client.Change) bool) {
		for i := range 20 {
			if <-known; !yield(client.Change{BusinessID: fmt.Sprint(i), Set: &client.Set{When: client.After(time.Hour)}}) {
				return
			}
		}
	}
	count := 0
	for r, err := range c.Apply(t.Context(), app, changes) {
		if err != nil || r.BusinessID != fmt.Sprint(count) {
			t.Fatalf("result %d: %+v, %v", count, r, err)
		}
		count++
		known <- r.BusinessID
	}
	if count != 20 {
		t.Errorf("%d results", count)
	}
}

func TestApplyStopsWithItsCaller(t *testing.T) {
	t.Parallel()
	c, app := dial(t, serverURL), applicationOf(t)
	made := 0
	endless := func(yield func(client.Change) bool) {
		for yield(client.Change{BusinessID: "x", Set: &client.Set{When: client.After(time.Hour)}}) {
			made++
		}
	}
	count := 0
	for _, err := range c.Apply(t.Context(), app, endless) {
		if err != nil {
			t.Fatal(err)
		}
		if count++; count == 10 {
			break
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Apply(ctx, app, endless) {
		cancel()
		last = err
	}
	if failed := refused(t, last, ""); !errors.Is(last, context.Canceled) || !failed.Unconfirmed || made == 0 {
		t.Errorf("%+v", failed)
	}
}

// Half a line at the end of a cancelled stream is no fault of the service.
func TestApplyCancelledInALineReportsTheCancel(t *testing.T) {
	t.Parallel()
	c, _ := dialFaulty(t, times(1, func(w http.ResponseWriter, r *http.Request, _ http.Handler) {
		_, _ = io.WriteString(w, `{"line":1,"business_id":"x","status":201}`+"\n"+`{"line":2,"busi`)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var last error
	for _, err := range c.Apply(ctx, applicationOf(t), slices.Values(sets(3))) {
		cancel()
		last = err
	}
	if failed := refused(t, last, ""); !errors.Is(last, context.Canceled) || !failed.Unconfirmed {
		t.Errorf("%+v", failed)
	}
}

func TestApplyEndsAtAWrongChange(t *testing.T) {
	t.Parallel()
	c, app := dial(t, serverURL), applicationOf(t)
	changes := sets(5)
	changes[3].Set.Payload = client.RawJSON([]byte("{"))
	results, err := apply(t.Context(), c, app, slices.Values(changes))
	failed := refused(t, err, client.CodeInvalidValue)
	if len(results) != 3 || failed.Field != "payload" || !strings.HasPrefix(failed.Detail, "change 4: ") {
		t.Errorf("%d results, then %+v", len(results), failed)
	}
}

func TestApplyReportsABrokenStream(t *testing.T) {
	t.Parallel()
	line := func(n int) string { return fmt.Sprintf("{\"line\":%d,\"business_id\":\"x\",\"status\":201}\n", n) }
	for name, c2 := range map[string]struct {
		fault   faulty.Fault
		results int
		code    string
	}{
		"closed":         {faulty.Cut, 0, ""},
		"busy":           {busy("overloaded", "1"), 0, client.CodeOverloaded},
		"too few":        {faulty.Respond(200, line(1)+line(2)), 2, ""},
		"garbage":        {faulty.Respond(200, line(1)+"<html>\n"), 1, ""},
		"wrong order":    {faulty.Respond(200, line(1)+line(3)), 1, ""},
		"too many":       {faulty.Respond(200, line(1)+line(2)+line(3)+line(4)), 4, ""},
		"a long line":    {faulty.Respond(200, line(1)+manyBytes), 1, ""},
		"cut in a line":  {faulty.Respond(200, line(1)+line(2)[:20]), 1, ""},
		"another answer": {faulty.Respond(404, "<html>"), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, server := dialFaulty(t, times(2, c2.fault))
			results, err := apply(t.Context(), c, applicationOf(t), slices.Values(sets(3)))
			failed := refused(t, err, c2.code)
			if len(results) != c2.results || tries(server) != 1 || failed.Error() == "" {
				t.Errorf("%d results after %d tries, then %+v", len(results), tries(server), failed)
			}
		})
	}
}

// The service behind the proxy is real, so a stream that is cut in the middle has made some of its changes. Sent again,
// all are there.
func TestApplyCutInTheMiddleCanBeSentAgain(t *testing.T) {
	t.Parallel()
	app := applicationOf(t)
	cutAfter := func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		_ = http.NewResponseController(w).EnableFullDuplex() // net/http else drops the rest of a body when the response begins
		next.ServeHTTP(&cutWriter{ResponseWriter: w, conn: faulty.Conn(r), left: 2000}, r)
	}
	c, _ := dialFaulty(t, times(1, cutAfter))
	at := time.Now().Add(time.Hour)
	changes := sets(5000)
	for i := range changes {
		changes[i].Set.When = client.At(at)
	}
	results, err := apply(t.Context(), c, app, slices.Values(changes))
	if failed := refused(t, err, ""); !failed.Unconfirmed || len(results) == len(changes) {
		t.Fatalf("%d results, %+v", len(results), failed)
	}
	done, direct := len(results), dial(t, serverURL)
	if results, err = apply(t.Context(), direct, app, slices.Values(changes[done:])); err != nil ||
		len(results) != len(changes)-done {
		t.Fatalf("%d results, %v", len(results), err)
	}
	count := 0
	for a, err := range direct.List(t.Context(), app, client.Filter{}) {
		if err != nil || a.Generation != 1 {
			t.Fatalf("%+v, %v", a, err)
		}
		count++
	}
	if count != len(changes) {
		t.Errorf("%d alarms, want %d", count, len(changes))
	}
}

// cutWriter closes the connection after some bytes of the response. It does not abort the handler: while the proxy
// still reads the body, that may block in net/http for ever, and the connection stays open.
type cutWriter struct {
	http.ResponseWriter
	conn net.Conn
	left int
}

func (w *cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *cutWriter) Write(b []byte) (int, error) {
	if w.left -= len(b); w.left < 0 {
		_ = w.conn.Close()
		return 0, net.ErrClosed
	}
	return w.ResponseWriter.Write(b)
}
