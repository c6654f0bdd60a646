package client_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/faulty"
)

// dialFaulty returns a client whose first tries meet these faults, and the server before the service.
func dialFaulty(t *testing.T, faults []faulty.Fault, options ...client.Option) (*client.Client, *faulty.Server) {
	t.Helper()
	s, err := faulty.Start(serverURL, faults...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return dial(t, s.URL, options...), s
}

// tries returns the number of requests.
func tries(s *faulty.Server) int { return len(s.Asked()) }

// busy is the response of a service without room.
func busy(code, retryAfter string) faulty.Fault {
	return faulty.Respond(503, `{"title":"x","status":503,"code":"`+code+`","detail":"busy"}`, "Content-Type",
		"application/problem+json", "Retry-After", retryAfter)
}

func times(n int, f faulty.Fault) []faulty.Fault { return slices.Repeat([]faulty.Fault{f}, n) }

// manyBytes is longer than any response that the client reads.
var manyBytes = strings.Repeat("x", 17<<20)
