package bench

import (
	"encoding/json"
	"testing"
)

func TestSeriesNumbersItsIDs(t *testing.T) {
	for _, s := range []series{"herd", definitions} {
		numbersItsIDs(t, s)
	}
	s := series("herd")
	for _, id := range []string{"", "herd-", "herd-0000001", "herd-000000001", "bird-00000001", "herd-0000000x", "herd--0000001"} {
		if n, ok := s.number([]byte(id)); ok {
			t.Errorf("%q has number %d", id, n)
		}
	}
}

func numbersItsIDs(t *testing.T, s series) {
	t.Helper()
	for _, n := range []int{0, 42, maxSeries} {
		id := s.appendID(nil, n)
		if got, ok := s.number(id); !ok || got != n {
			t.Errorf("%s: number %d, %t", id, got, ok)
		}
		payload := s.appendPayload(nil, n)
		if len(payload) != payloadBytes || !json.Valid(payload) {
			t.Errorf("%d bytes of payload: %s", len(payload), payload)
		}
		if set := s.appendSet(nil, n, 1700000000000); !json.Valid(set) {
			t.Errorf("not JSON: %s", set)
		}
	}
}

func TestEventFieldsAreFound(t *testing.T) {
	r := eventOf([]byte(`{"message_id":"7.1.1","application":"bench","business_id":"s-00000001","generation":1,"payload":{"order":"s-00000001"}}` + "\n"))
	if string(r.messageID) != "7.1.1" || string(r.businessID) != "s-00000001" ||
		string(r.payload) != `{"order":"s-00000001"}` {
		t.Errorf("got %s %s %s", r.messageID, r.businessID, r.payload)
	}
}
