package settings

import (
	"encoding/json"
	"strconv"
	"time"
)

// grpcFields are the fields of a method in a settings document.
var grpcFields = []string{"url", "method", "metadata", "timeout", "concurrency"}

// parseGRPC reads the method of a settings document. Fields that are left out have the values of NewGRPC. The field of
// an error begins with grpc.
func parseGRPC(raw []byte) (*GRPC, error) {
	g := NewGRPC("", "")
	err := eachMember("", raw, grpcFields, func(name string, raw []byte) (err error) {
		switch name {
		case "url":
			return parseTextField(raw, name, &g.URL)
		case "method":
			return parseTextField(raw, name, &g.Method)
		case "timeout":
			return parseDurationField(raw, name, &g.Timeout)
		case "concurrency":
			return parseIntField(raw, name, &g.Concurrency)
		}
		g.Metadata, err = parseHeaders("metadata", raw)
		return err
	})
	if err == nil {
		err = g.Validate()
	}
	if err != nil {
		return nil, within("grpc", err)
	}
	return g, nil
}

// grpcFormat is the JSON of a method in a settings document.
type grpcFormat struct {
	URL         string            `json:"url"`
	Method      string            `json:"method"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	Timeout     string            `json:"timeout"`
	Concurrency int               `json:"concurrency"`
}

// format returns the JSON of the method, with the values of its metadata.
func (g *GRPC) format() *grpcFormat {
	if g == nil {
		return nil
	}
	return &grpcFormat{URL: g.URL, Method: g.Method, Metadata: g.Metadata, Timeout: shortDuration(g.Timeout),
		Concurrency: g.Concurrency}
}

// RedactedJSON returns the method as it is in the document of Settings.Redacted; null for nil.
func (g *GRPC) RedactedJSON() []byte {
	if g == nil {
		return []byte("null")
	}
	b, err := json.Marshal(g.Redacted().format())
	if err != nil { // texts and whole numbers can be encoded
		panic("settings: encode a method of gRPC: " + err.Error())
	}
	return b
}

// shortDuration returns a duration in whole seconds, or else in milliseconds.
func shortDuration(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
}
