package clockhttp

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// costlessStore returns at once and writes nothing. So a benchmark measures only this package and the domain.
type costlessStore struct{ clock.Store }

func (costlessStore) Write(_ context.Context, r clock.WriteRequest) ([]clock.Decision, error) {
	ds := make([]clock.Decision, len(r.Ops))
	for i, op := range r.Ops {
		ds[i] = op.Decide(cancelledRow(op), r.Now)
	}
	return ds, nil
}

// cancelledRow returns the row that a cancel finds, nil for a set.
func cancelledRow(op clock.Op) *clock.Alarm {
	if op.Cancel == nil {
		return nil
	}
	return &clock.Alarm{
		Key: op.Key(), Generation: 1, AnsweredAt: clock.NoInstant,
		Content: clock.Content{
			RingAt: 1_900_000_000_000, LatestRingAt: clock.NoInstant, PayloadKind: clock.JSON, Payload: benchPayload,
			ContentType: "application/json", Retry: clock.DefaultRetryPolicy(), MaxRings: clock.DefaultMaxRings,
		},
		RingRow: clock.RingRow{
			State: clock.Scheduled, NextTryTime: 1_900_000_000_000, RungAt: clock.NoInstant,
			UpdateTime: 1_800_000_000_000, FinishedAt: clock.NoInstant,
		},
		CreateTime: 1_800_000_000_000,
	}
}

var benchPayload = fmt.Appendf(nil, `{"order":"order-00004711","note":"%s"}`, bytes.Repeat([]byte("clockd "), 23))

// discard is a response writer that keeps the status and discards the rest.
type discard struct {
	header http.Header
	status int
}

func (d *discard) Header() http.Header            { return d.header }
func (d *discard) WriteHeader(status int)         { d.status = status }
func (*discard) Write(b []byte) (int, error)      { return len(b), nil }
func (*discard) Flush()                           {}
func (*discard) EnableFullDuplex() error          { return nil }
func (*discard) SetReadDeadline(time.Time) error  { return nil }
func (*discard) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkRequest measures a request without a network and a database: parsing, the decision and the response.
func BenchmarkRequest(b *testing.B) {
	const items = 500
	var sets, ids, setLines, cancelLines bytes.Buffer
	for i := range items {
		comma := ","
		if i == 0 {
			comma = ""
		}
		set := fmt.Sprintf(`{"business_id":"order-%08d","ring_at":1900000000000,"payload":%s}`, i, benchPayload)
		fmt.Fprintf(&sets, "%s%s", comma, set)
		fmt.Fprintf(&ids, `%s"order-%08d"`, comma, i)
		fmt.Fprintf(&setLines, "%s\n", set)
		fmt.Fprintf(&cancelLines, `{"cancel":"order-%08d"}`+"\n", i)
	}
	for _, bm := range []struct {
		name, method, path, contentType string
		body                            []byte
		alarms                          int
	}{
		{"set", http.MethodPut, alarms + "/order-4711", "application/json",
			fmt.Appendf(nil, `{"ring_at":1900000000000,"payload":%s}`, benchPayload), 1},
		{"cancel", http.MethodDelete, alarms + "/order-4711", "", nil, 1},
		{"set array", http.MethodPost, alarms, "application/json", fmt.Appendf(nil, `{"set":[%s]}`, &sets), items},
		{"cancel array", http.MethodPost, alarms, "application/json", fmt.Appendf(nil, `{"cancel":[%s]}`, &ids), items},
		{"set lines", http.MethodPost, alarms, ndjsonType, setLines.Bytes(), items},
		{"cancel lines", http.MethodPost, alarms, ndjsonType, cancelLines.Bytes(), items},
	} {
		b.Run(bm.name, func(b *testing.B) {
			server := benchServer(b)
			template := httptest.NewRequestWithContext(b.Context(), bm.method, bm.path, bytes.NewReader(bm.body))
			template.Host = "localhost"
			template.Header.Set("Content-Type", bm.contentType)
			b.ReportAllocs()
			for b.Loop() {
				request, url := *template, *template.URL
				request.URL, request.Body = &url, io.NopCloser(bytes.NewReader(bm.body))
				response := discard{header: http.Header{}}
				if server.ServeHTTP(&response, &request); response.status >= 300 {
					b.Fatalf("status %d", response.status)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*bm.alarms), "ns/alarm")
		})
	}
}

// benchServer returns a server with a real clock.Service on a costlessStore.
func benchServer(b *testing.B) *Server {
	b.Helper()
	tb, err := clock.NewTimebase(clock.TimebaseConfig{Interval: time.Minute, Idle: time.Minute, MaxAge: 3 * time.Hour},
		clock.TimebaseDeps{Source: newMemoryStore()})
	if err != nil {
		b.Fatal(err)
	}
	if err := tb.Sample(b.Context()); err != nil {
		b.Fatal(err)
	}
	service, err := clock.NewService(clock.DefaultServiceConfig(),
		clock.ServiceDeps{Store: costlessStore{}, Time: tb, Listener: newMemoryStore()})
	if err != nil {
		b.Fatal(err)
	}
	background(b, service.Run)
	return newServer(b, Deps{Alarms: service})
}
