package engine

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// pack makes a row in the format of LockDue.
func pack(payload string, texts ...string) string {
	var b strings.Builder
	b.WriteString("1450 7 3 2 1 0 1 -1 1500 1400 63 5 60000 0 9 0 2 1000 -1")
	for _, text := range texts {
		fmt.Fprintf(&b, " %d %s", len(text), text)
	}
	fmt.Fprintf(&b, " 1 %d %s", len(payload), payload)
	return b.String()
}

func TestUnpackDueReturnsThePackedRow(t *testing.T) {
	texts := []string{"shop", " order 1", "", "12 3", " ", "\x00", "text/plain ", "{ }", " 7", "refunds", `{"url": 7}`}
	for _, payload := range []string{"", " ", "5 hello", strings.Repeat("\xff ", InlineBytes/2)} {
		r, server, err := unpackDue(pack(payload, texts...))
		if err != nil {
			t.Fatal(err)
		}
		got := []string{r.Application, r.BusinessID, r.LastError, r.ClaimID, r.RetryPolicy, r.Traceparent,
			r.ContentType, r.RepeatRule, r.RepeatState, r.Destination, r.Receiver}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", texts) || string(r.Payload) != payload ||
			int(r.PayloadLength) != len(payload) {
			t.Errorf("texts %q, payload %q", got, r.Payload)
		}
		if r.Generation != 3 || r.State != 2 || r.RingNo != 1 || r.RetryTimes != 0 || r.InDoubt != 1 ||
			r.DoubtTarget != 2 || r.RungAt.Valid || r.NextTryTime.Int64 != 1500 || server != 1450 || r.ID != 7 ||
			r.Shard != 63 || r.LatestRingAt.Valid || r.UpdateTime != 1400 || r.PayloadKind != 1 {
			t.Errorf("%+v", r)
		}
	}
}

// FuzzUnpackDue: no row makes unpackDue panic, and every text that it returns occurs in the row.
func FuzzUnpackDue(f *testing.F) {
	f.Add(pack("hello", "shop", "order", "", "", "{}", "", "text/plain", "", "", "", "{}"))
	f.Add(pack("", "", " 1 2", "9 9", "\xff", "", " ", ""))
	f.Add("1 2 -3 4 x")
	f.Fuzz(func(t *testing.T, row string) {
		r, _, err := unpackDue(row)
		texts := []string{r.Application, r.BusinessID, r.LastError, r.ClaimID, r.RetryPolicy, r.Traceparent,
			r.ContentType, r.Destination, r.Receiver, string(r.Payload)}
		if err == nil &&
			(len(strings.Join(texts, "")) > len(row) ||
				slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(row, s) })) {
			t.Errorf("%q has no %q", row, texts)
		}
	})
}

// A malformed row is an error, never a panic.
func TestUnpackRefusesMalformedRows(t *testing.T) {
	whole := pack("hello", "shop", "order", "", "", "{}", "", "")
	for n := range len(whole) {
		if _, _, err := unpackDue(whole[:n]); err == nil {
			t.Errorf("%q was read", whole[:n])
		}
	}
	for _, row := range []string{"", " ", "x", "1 2 -3", strings.Replace(whole, " 4 shop", " -4 shop", 1), strings.Replace(whole, " 4 shop", " 99999999 shop", 1)} {
		if _, _, err := unpackDue(row); err == nil {
			t.Errorf("%q was read", row)
		}
	}
}
