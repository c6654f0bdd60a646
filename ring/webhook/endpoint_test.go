package webhook

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock/settings"
)

// Every valid endpoint makes a valid request, with no other headers than the endpoint's.
func FuzzEndpoint(f *testing.F) {
	for _, seed := range []string{
		`"url":"https://shop.example/rings"`, `"url":"https://shop.example/","headers":{"a":"b"}`,
		`"url":"http://[::1]:1/%2f?q","body":"envelope"`,
		`"url":"https://shop.example/","method":"PUT","timeout":1500`,
	} {
		f.Add(`{` + seed + `,"secrets":["` + string(oldSecret) + `"]}`)
	}
	f.Fuzz(func(t *testing.T, in string) {
		parsed, err := settings.Parse(`{"webhook":` + in + `}`)
		if err != nil || parsed.Webhook == nil {
			return
		}
		e := parsed.Webhook
		s, err := newSender(e, "test")
		if err != nil {
			t.Fatal(err)
		}
		ring := rings("shop", 1)[0]
		req, _, err := s.request(&ring)
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		if err := req.Write(&out); err != nil {
			t.Fatalf("the request cannot be written: %v", err)
		}
		if heads, _, _ := strings.Cut(out.String(), "\r\n\r\n"); strings.Count(heads, "\r\n") != 15+len(e.Headers)+agents(e) {
			t.Fatalf("the endpoint adds headers: %q", heads)
		}
	})
}

// agents returns -1 if the endpoint replaces the header user-agent.
func agents(e *settings.Webhook) int {
	for name := range e.Headers {
		if strings.EqualFold(name, "user-agent") {
			return -1
		}
	}
	return 0
}
