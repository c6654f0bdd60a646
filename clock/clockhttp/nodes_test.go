package clockhttp

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestNodesAreListed(t *testing.T) {
	t.Parallel()
	view, err := NodesView{}, error(nil)
	h := start(t, func(su *setup) {
		su.deps.Nodes = func(context.Context) (NodesView, error) { return view, err }
	})
	view.DatabaseTime = 1000
	const empty = `{"self":"","database_time":"1970-01-01T00:00:01.000Z","settings_changes":0,` +
		`"nodes":[],"shards":[]}` + "\n"
	if r := h.expect(200, "", "GET", "/v1/nodes", ""); string(r.body) != empty {
		t.Errorf("%s", r.body)
	}
	view = NodesView{
		Self: "ONE", DatabaseTime: 1000, Settings: 9,
		Nodes: []NodeView{
			{Name: `a "b"`, Incarnation: "ONE", Address: "10.0.0.1:8080", Version: "1.2", StartedAt: 5, ExpiresAt: 3000,
				Alive: true, Settings: 7, Shards: []int{0, 2}, Applications: []string{"shop", "bank"},
				Lacks: []string{"amqp", "read"}, SecretKeys: []string{"0badcafe", "1badcafe"}},
			{Name: "c", Incarnation: "TWO", NameShared: true, ExpiresAt: 900, Settings: -1},
		},
		Shards: []ShardView{{Shard: 0, Node: "a", Incarnation: "ONE", Epoch: 7, ExpiresAt: 3000}, {Shard: 1, Epoch: 2}},
	}
	const want = `{"self":"ONE","database_time":"1970-01-01T00:00:01.000Z","settings_changes":9,"nodes":[` +
		`{"name":"a \"b\"","incarnation":"ONE","address":"10.0.0.1:8080","version":"1.2","started_at":"1970-01-01T00:00:00.005Z","expires_at":"1970-01-01T00:00:03.000Z",` +
		`"alive":true,"name_shared":false,"settings":7,"shards":[0,2],"applications":["shop","bank"],` +
		`"lacks":["amqp","read"],"secret_keys":["0badcafe","1badcafe"]},` +
		`{"name":"c","incarnation":"TWO","address":"","version":"","started_at":"1970-01-01T00:00:00.000Z","expires_at":"1970-01-01T00:00:00.900Z",` +
		`"alive":false,"name_shared":true,"settings":null,"shards":[],"applications":[],"lacks":[],"secret_keys":[]}],` +
		`"shards":[{"shard":0,"node":"a","incarnation":"ONE","epoch":7,"expires_at":"1970-01-01T00:00:03.000Z"},` +
		`{"shard":1,"node":null,"incarnation":null,"epoch":2,"expires_at":null}]}` + "\n"
	if r := h.expect(200, "", "GET", "/v1/nodes", ""); string(r.body) != want {
		t.Errorf("%s, want\n%s", r.body, want)
	}
	err = clock.Unavailable(errors.New("gone"))
	h.expect(503, "unavailable", "GET", "/v1/nodes", "")
}

// Requests at the same time share one read. A client that waits only a second does not end it for the others.
func TestNodesAreReadForAllClients(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := newServer(t, Deps{
			Alarms: stuckAlarms{},
			Nodes: func(ctx context.Context) (NodesView, error) {
				select {
				case <-time.After(3 * time.Second):
					return NodesView{}, nil
				case <-ctx.Done():
					return NodesView{}, ctx.Err()
				}
			},
		})
		var both sync.WaitGroup
		for _, prefer := range []string{"wait=1", ""} {
			both.Go(func() {
				request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/nodes",
					http.NoBody)
				request.Header.Set("Prefer", prefer)
				w := httptest.NewRecorder()
				server.ServeHTTP(w, request)
				if w.Code != http.StatusOK || w.Header().Get("Preference-Applied") != "" {
					t.Errorf("prefer %q: %d %v %s", prefer, w.Code, w.Header(), w.Body)
				}
			})
		}
		both.Wait()
	})
}

func TestNodesWithoutAReaderAre503(t *testing.T) {
	t.Parallel()
	start(t).expect(503, "unavailable", "GET", "/v1/nodes", "")
}
