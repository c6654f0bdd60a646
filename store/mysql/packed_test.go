package mysql

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

// pack puts a row together as LockDue does.
func pack(payload string, texts ...string) string {
	var b strings.Builder
	b.WriteString("7 63 2 3 1 0 5 60000 0 9 1000 -1 1500 1 -1 1400")
	for _, text := range texts {
		fmt.Fprintf(&b, " %d %s", len(text), text)
	}
	fmt.Fprintf(&b, " 1 %d %s", len(payload), payload)
	return b.String()
}

func TestUnpackDue(t *testing.T) {
	texts := []string{"shop", " order 1", "", "12 3", " ", "\x00", "text/plain "}
	for _, payload := range []string{"", " ", "5 hello", strings.Repeat("\xff ", inlineBytes/2)} {
		r, err := unpackDue(pack(payload, texts...))
		ok(t, err, "unpack")
		got := []string{r.Application, r.BusinessID, r.LastError, r.ClaimID, r.retryPolicy, r.traceparent, r.contentType}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) || string(r.payload) != payload || r.PayloadLength != len(payload) {
			t.Errorf("texts %q, payload %q", got, r.payload)
		}
		if r.ID != 7 || r.shard != 63 || r.LatestRingAt != clock.NoInstant || r.UpdateTime != 1400 || r.payloadKind != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// No row can make it panic; what is read is what was there.
func FuzzUnpackDue(f *testing.F) {
	f.Add(pack("hello", "shop", "order", "", "", "{}", "", "text/plain"))
	f.Add(pack("", "", " 1 2", "9 9", "\xff", "", " ", ""))
	f.Add("1 2 -3 4 x")
	f.Fuzz(func(t *testing.T, row string) {
		r, err := unpackDue(row)
		texts := []string{r.Application, r.BusinessID, r.LastError, r.ClaimID, r.retryPolicy, r.traceparent, r.contentType, string(r.payload)}
		if err == nil && (len(strings.Join(texts, "")) > len(row) || slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(row, s) })) {
			t.Errorf("%q has no %q", row, texts)
		}
		_, _ = unpackEntry(row)
	})
}

// A row that is not as its statement says is an error, never a panic.
func TestUnpackRubbish(t *testing.T) {
	whole := pack("hello", "shop", "order", "", "", "{}", "", "")
	for n := range len(whole) {
		if _, err := unpackDue(whole[:n]); err == nil {
			t.Errorf("%q was read", whole[:n])
		}
	}
	for _, row := range []string{"", " ", "x", "1 2 -3", strings.Replace(whole, " 4 shop", " -4 shop", 1), strings.Replace(whole, " 4 shop", " 99999999 shop", 1)} {
		if _, err := unpackDue(row); err == nil {
			t.Errorf("%q was read", row)
		}
	}
	for _, row := range []string{"", "1", "1 2 x 4 shop", "1 2"} {
		if _, err := unpackEntry(row); err == nil {
			t.Errorf("entry %q was read", row)
		}
	}
}
