package front

import (
	"net/http"
	"testing"
)

func TestHeadersOfProxiesAreKnown(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Forwarded", "via", "x-forwarded-for", "X-Forwarded-Port", "X-Forwarded", "X-Real-IP", "CF-Connecting-IP", "True-Client-IP"} {
		h := http.Header{}
		h.Set(name, "")
		if !forwarded(h) {
			t.Errorf("%s is not known", name)
		}
	}
	if forwarded(http.Header{"Accept": {"*/*"}, "X-Request-Id": {"a"}}) {
		t.Error("a request without a header of a proxy counts as forwarded")
	}
}
