package clockhttp

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// fixedSearch finds two alarms of the memory store, and reports that more were found.
type fixedSearch struct {
	store *memoryStore
	asked []clock.SearchQuery
	fail  error
}

func (f *fixedSearch) Find(ctx context.Context, q clock.SearchQuery, take func(*clock.Alarm) bool) (bool, error) {
	f.asked = append(f.asked, q)
	if f.fail != nil {
		return false, f.fail
	}
	for _, id := range []string{"a", "b"} {
		a, err := f.store.Get(ctx, clock.Key{Application: "shop", BusinessID: id})
		if err != nil || !take(a) {
			return true, err
		}
	}
	return true, q.Validate()
}

func TestSearchRespondsWithTheFoundAlarms(t *testing.T) {
	t.Parallel()
	var found *fixedSearch
	h := start(t, func(su *setup) {
		found = &fixedSearch{store: su.store}
		su.deps.Search = found
	})
	h.expect(201, "", "PUT", alarms+"/a", `{"delay":"1h","payload":{"a":1}}`)
	h.expect(201, "", "PUT", alarms+"/b", `{"delay":"1h"}`)
	body := string(h.expect(200, "", "GET", "/v1/search?q=a%2Bb%20c&application=shop&limit=7", "").body)
	if !strings.Contains(body, `"business_id":"a"`) || !strings.Contains(body, `"business_id":"b"`) ||
		!strings.HasSuffix(body, `],"more":true}`+"\n") {
		t.Errorf("%s", body)
	}
	if len(found.asked) != 1 || found.asked[0].Text != "a+b c" || found.asked[0].Application != "shop" ||
		found.asked[0].Limit != 7 || !found.asked[0].Covers("shop") {
		t.Errorf("asked for %+v", found.asked)
	}
	for query, code := range map[string]string{
		"q=a&limit=101": clock.CodeOutOfRange, "q=a&state=dead": codeUnknownParameter, "q=a&q=b": codeDuplicateField,
		"q=a&application=a%20b": clock.CodeInvalidApplication,
	} {
		h.expect(422, code, "GET", "/v1/search?"+query, "")
	}
	h.expect(400, codeUnexpectedBody, "GET", "/v1/search?q=a", "{}")
	found.fail = clock.Unavailable(errors.New("gone"))
	h.expect(503, clock.CodeUnavailable, "GET", "/v1/search?q=a", "")
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/search?q=a", "")
}
