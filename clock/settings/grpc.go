package settings

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
)

// maxGRPCMethod is the length of the longest method, in bytes.
const maxGRPCMethod = 512

// GRPC says which method of gRPC the rings of one application call. It does not change.
type GRPC struct {
	URL         string            // scheme, host and port of the server: https, or http for HTTP/2 in plain text; without a path
	Method      string            // service and method, as in shop.v1.Alarms/Ring
	Metadata    map[string]string // further metadata of each call; nil: none
	Timeout     time.Duration     // deadline of the call, from its begin to its status
	Concurrency int               // most calls of the application under way at once
}

// NewGRPC returns a method with the defaults.
func NewGRPC(address, method string) *GRPC {
	return &GRPC{URL: address, Method: method, Timeout: DefaultEndpointTimeout, Concurrency: DefaultEndpointConcurrency}
}

// equals reports whether both are the same, or both are nil.
func (g *GRPC) equals(other *GRPC) bool {
	if g == nil || other == nil {
		return g == other
	}
	return g.URL == other.URL && g.Method == other.Method && maps.Equal(g.Metadata, other.Metadata) &&
		g.Timeout == other.Timeout &&
		g.Concurrency == other.Concurrency
}

// Validate returns a *clock.Error of kind clock.ErrInvalid that names the field, or nil. It does not look up the host:
// the guard checks the address of each connection.
func (g *GRPC) Validate() error {
	if _, err := g.ParsedURL(); err != nil {
		return err
	}
	switch service, method, _ := strings.Cut(g.Method, "/"); {
	case g.Method == "":
		return clock.Invalid(clock.CodeRequired, "method",
			"method is required: the service and its method, as in shop.v1.Alarms/Ring")
	case len(g.Method) > maxGRPCMethod:
		return clock.Invalid(clock.CodeOutOfRange, "method",
			fmt.Sprintf("method has more than %d bytes", maxGRPCMethod))
	case !isProtoName(service, true) || !isProtoName(method, false):
		return clock.Invalid(clock.CodeInvalidValue, "method",
			"method must be a service and its method, as in shop.v1.Alarms/Ring")
	}
	if err := validateHeaders("metadata", g.Metadata); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(g.Metadata)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "grpc-") || strings.HasSuffix(lower, "-bin") {
			field := "metadata." + cleanName(name)
			return clock.Invalid(clock.CodeInvalidValue, field,
				field+" belongs to gRPC, or is binary: neither can be given")
		}
	}
	switch {
	case g.Timeout < MinEndpointTimeout || g.Timeout > MaxEndpointTimeout || g.Timeout%time.Millisecond != 0:
		return clock.Invalid(clock.CodeOutOfRange, "timeout",
			fmt.Sprintf("timeout must be from %s to %s, in whole milliseconds", MinEndpointTimeout, MaxEndpointTimeout))
	case g.Concurrency < 1 || g.Concurrency > MaxEndpointConcurrency:
		return clock.Invalid(clock.CodeOutOfRange, "concurrency",
			fmt.Sprintf("concurrency must be from 1 to %d", MaxEndpointConcurrency))
	}
	return nil
}

// ParsedURL returns the URL of the method.
func (g *GRPC) ParsedURL() (*url.URL, error) {
	u, err := parseEndpointURL(g.URL)
	if err != nil {
		return nil, err
	}
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		return nil, clock.Invalid(clock.CodeInvalidValue, "url",
			"url must have neither a path nor a query: method names the service and its method")
	}
	u.Path = "/" + g.Method
	return u, nil
}

// isProtoName reports whether s is a name of protobuf, with dots between its parts if they are allowed.
func isProtoName(s string, dots bool) bool {
	for _, part := range strings.Split(s, ".") {
		for i, r := range part {
			if letter := r == '_' || r >= 'a' && r <= 'z' ||
				r >= 'A' && r <= 'Z'; !letter && (i == 0 || r < '0' || r > '9') {
				return false
			}
		}
		if part == "" {
			return false
		}
	}
	return dots || !strings.Contains(s, ".")
}

// Redacted returns a copy for people: without the values of the metadata, because each may hold a password.
func (g *GRPC) Redacted() *GRPC {
	shown := *g
	shown.Metadata = nil
	for name := range g.Metadata {
		if shown.Metadata == nil {
			shown.Metadata = map[string]string{}
		}
		shown.Metadata[name] = "..."
	}
	return &shown
}
