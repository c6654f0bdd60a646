package clock

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// The shard is stored, so these values must never change.
func TestShardIsFixed(t *testing.T) {
	for _, c := range []struct {
		key   Key
		count int
		want  int
	}{
		{Key{"shop", "order-4711"}, 64, 3},
		{Key{"shop", "order-4711"}, 1, 0},
		{Key{"a", "b"}, 64, 43},
		{Key{"ab", ""}, 64, 7},
		{Key{"a", "bø/%+ 1"}, 64, 44},
		{Key{"shop", "order-4711"}, 1000, 867},
	} {
		if got := c.key.Shard(c.count); got != c.want {
			t.Errorf("%q.Shard(%d) = %d, want %d", c.key, c.count, got, c.want)
		}
	}
}

func TestShardTellsApplicationFromBusinessID(t *testing.T) {
	const many = 1 << 30
	if (Key{"ab", "c"}).Shard(many) == (Key{"a", "bc"}).Shard(many) {
		t.Error("the hash does not separate application and business id")
	}
}

func TestShardsAreEven(t *testing.T) {
	const shards, keys = 64, 64_000
	counts := make([]int, shards)
	for i := range keys {
		counts[Key{"shop", fmt.Sprintf("order-%d", i)}.Shard(shards)]++
	}
	for s, n := range counts {
		if n < 800 || n > 1200 {
			t.Errorf("shard %d has %d of %d keys", s, n, keys)
		}
	}
}

func TestValidateApplicationAllowsTheDocumentedCharacters(t *testing.T) {
	for _, good := range []string{"a", "7", "Z", "shop", "a.b_c-D9", "a..", strings.Repeat("a", 64)} {
		if err := ValidateApplication(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", ".", ".a", "-a", "_a", "a b", "a/b", "ø", "aø", "a\n", "a\x00", "a%20", "a:b", "[", "`a", "@", strings.Repeat("a", 65)} {
		if field, code := invalidField(ValidateApplication(bad)); field != "application" ||
			code != CodeInvalidApplication {
			t.Errorf("%q got %q, %q", bad, field, code)
		}
	}
}

func TestValidateBusinessIDRefusesControlCharactersAndBlanks(t *testing.T) {
	for _, good := range []string{
		"a", "4711", "/", "%", "+", "a b", "ordre/æøå", "...", ".a", strings.Repeat("a", 128), strings.Repeat("ø", 64),
		"\ufeffa", "😀", "\ufffd",
	} {
		if err := ValidateBusinessID(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", ".", "..", " ", " a", "a ", "\ta", "a\n", "a\tb", "a\x00b", "a\x7fb", "a\u0085b", "\u00a0a", "a\u3000",
		"\xff", "a\xc3", "\xed\xa0\x80",
		strings.Repeat("a", 129), strings.Repeat("ø", 64) + "a",
	} {
		if field, code := invalidField(ValidateBusinessID(bad)); field != "business_id" ||
			code != CodeInvalidBusinessID {
			t.Errorf("%q got %q, %q", bad, field, code)
		}
	}
}

func FuzzValidateKey(f *testing.F) {
	for _, k := range []Key{{"shop", "4711"}, {"a.b", "ordre/æøå 1"}, {"-", "."}, {"", " a"}, {"a\n", "a\u0085"}, {"a", "\xff"}} {
		f.Add(k.Application, k.BusinessID)
	}
	application := regexp.MustCompile(`\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\z`)
	f.Fuzz(func(t *testing.T, app, id string) {
		if ok := ValidateApplication(app) == nil; ok != application.MatchString(app) {
			t.Fatalf("application %q: valid is %v", app, ok)
		}
		if ok := ValidateBusinessID(id) == nil; ok != plainlyValidID(id) {
			t.Fatalf("business id %q: valid is %v", id, ok)
		}
		k := Key{app, id}
		if k.Validate() != nil {
			return
		}
		if u, err := url.PathUnescape(url.PathEscape(id)); u != id || err != nil {
			t.Fatalf("business id %q does not survive a path", id)
		}
		if s := k.Shard(64); s < 0 || s >= 64 {
			t.Fatalf("%q is in shard %d", k, s)
		}
	})
}

// plainlyValidID says the rule of a business id once more, rune by rune.
func plainlyValidID(id string) bool {
	if len(id) < 1 || len(id) > 128 || id == "." || id == ".." || !utf8.ValidString(id) {
		return false
	}
	runes := []rune(id)
	if unicode.IsSpace(runes[0]) || unicode.IsSpace(runes[len(runes)-1]) {
		return false
	}
	for _, r := range runes {
		if r < 0x20 || r >= 0x7f && r < 0xa0 {
			return false
		}
	}
	return true
}
