package wake

import (
	"fmt"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/clockd/clockd/store"
)

// recordingLoader is a Loader that records the rows.
type recordingLoader struct{ rows []store.Due }

func (l *recordingLoader) Take(rows []store.Due) { l.rows = append(l.rows, rows...) }

func TestReceiverTakesWakeUpsOfLoadedShards(t *testing.T) {
	var loader recordingLoader
	r := NewReceiver(ReceiverDeps{Ownership: &fakeOwnership{shards: []int{0}}, Loader: &loader,
		Registerer: prometheus.NewRegistry()})
	for _, shard := range []int{0, 1} {
		if err := r.Receive(fmt.Appendf(nil, `{"shard":%d,"rows":[{"id":%d,"due":1000500,"rank":3,"app":"b"}]}`, shard, 300+shard)); err != nil {
			t.Error(err)
		}
	}
	if want := []store.Due{{ID: 300, NextTryTime: 1_000_500, Rank: 3, Application: "b"}}; !slices.Equal(loader.rows, want) {
		t.Errorf("the loader took %+v, want %+v", loader.rows, want)
	}
	if err := r.Receive([]byte("?")); err == nil {
		t.Error("Receive accepts an invalid wake-up")
	}
	if n := testutil.ToFloat64(r.received); n != 1 {
		t.Errorf("%v rows received", n)
	}
}
