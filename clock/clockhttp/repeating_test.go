package clockhttp

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// fixedRepeating lists alarms of the memory store by key, in the applications of the caller.
type fixedRepeating struct {
	store *memoryStore
	keys  []clock.Key
	asked []clock.ListQuery
	fail  error
}

func (f *fixedRepeating) List(
	ctx context.Context, q clock.ListQuery, covers func(string) bool, take func(*clock.Alarm) bool,
) (clock.ListPosition, error) {
	f.asked = append(f.asked, q)
	if f.fail != nil {
		return clock.ListPosition{}, f.fail
	}
	after := q.After
	passed := 0
	for _, k := range f.keys {
		last := clock.Key{Application: after.Application, BusinessID: after.BusinessID}
		if k.Compare(last) <= 0 || !covers(k.Application) {
			continue
		}
		if passed == q.Limit {
			return after, nil
		}
		a, err := f.store.Get(ctx, k)
		if err != nil || !take(a) {
			return after, err
		}
		passed++
		after = clock.ListPosition{Application: k.Application, BusinessID: k.BusinessID}
	}
	return clock.ListPosition{}, nil
}

func TestRepeatingAlarmsOfAllApplicationsAreListed(t *testing.T) {
	t.Parallel()
	f := &fixedRepeating{keys: []clock.Key{
		{Application: "bank", BusinessID: "x"}, {Application: "shop", BusinessID: "a/b"}, {Application: "shop", BusinessID: "c"},
	}}
	h := start(t, func(su *setup) { f.store, su.deps.Repeating = su.store, f })
	for _, path := range []string{"/v1/applications/bank/alarms/x", alarms + "/a%2Fb", alarms + "/c"} {
		h.expect(201, "", "PUT", path, `{"repeat":{"cron":"0 9 * * mon-fri","time_zone":"Europe/Berlin"}}`)
	}
	var got []string
	for cursor, pages := "", 0; pages < 3; pages++ {
		var p struct {
			Alarms []struct {
				Application string
				ID          string `json:"business_id"`
				Sentence    string `json:"repeat_sentence"`
			}
			NextCursor *string `json:"next_cursor"`
		}
		r := h.expect(200, "", "GET", "/v1/repeating?limit=2&state=paused,scheduled&due_before=4000000000000"+cursor, "")
		if err := json.Unmarshal(r.body, &p); err != nil {
			t.Fatal(err)
		}
		for _, a := range p.Alarms {
			got = append(got, a.Application+"/"+a.ID+" "+a.Sentence)
		}
		if p.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *p.NextCursor
	}
	const sentence = " at 09:00 on Monday to Friday, Europe/Berlin"
	if want := []string{"bank/x" + sentence, "shop/a/b" + sentence, "shop/c" + sentence}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if q := f.asked[0]; q.Limit != 2 || len(q.States) != 2 || q.DueBefore != 4000000000000 || q.Application != "" {
		t.Errorf("asked for %+v", q)
	}
	h.expect(200, "", "GET", "/v1/repeating?application=shop&prefix=a", "")
	if q := f.asked[len(f.asked)-1]; q.Application != "shop" || q.Prefix != "a" || q.Limit != clock.DefaultListLimit {
		t.Errorf("asked for %+v", q)
	}
	for query, code := range map[string]string{
		"limit=1001": clock.CodeOutOfRange, "application=a&application=b": codeDuplicateField,
		"application=a%20b": clock.CodeInvalidApplication, "state=late": clock.CodeInvalidValue,
		"application=shop&cursor=" + clock.EncodeCursor("", clock.ListPosition{Application: "shop"}): clock.CodeInvalidCursor,
		"cursor=" + clock.EncodeCursor("shop", clock.ListPosition{BusinessID: "a"}):                  clock.CodeInvalidCursor,
	} {
		h.expect(422, code, "GET", "/v1/repeating?"+query, "")
	}
	r := h.expect(422, codeUnknownParameter, "GET", "/v1/repeating?app=shop", "")
	if !strings.Contains(string(r.body), "known are application, cursor, due_after") {
		t.Errorf("%s", r.body)
	}
	h.expect(400, codeInvalidPath, "GET", "/v1/repeating?limit=%zz", "")
	h.expect(400, codeUnexpectedBody, "GET", "/v1/repeating", "{}")
	f.fail = clock.Unavailable(errors.New("gone"))
	h.expect(503, clock.CodeUnavailable, "GET", "/v1/repeating", "")
	start(t).expect(503, clock.CodeUnavailable, "GET", "/v1/repeating", "")
}
