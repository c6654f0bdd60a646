package grpc

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/ring/httpcall"
)

// Method says which method of gRPC the rings of one application call. It does not change.
type Method struct {
	URL         string            // scheme, host and port of the server: https, or http for HTTP/2 in plain text; without a path
	Name        string            // service and method, as in shop.v1.Alarms/Ring
	Metadata    map[string]string // further metadata of each call; nil: none
	Timeout     time.Duration     // deadline of the call, from its begin to its status
	Concurrency int               // most calls of the application under way at once

	AlarmFields settings.Patterns // fields that alarms may bring themselves; nil: none
}

// NewMethod returns a method with the defaults.
func NewMethod(address, name string) *Method {
	return &Method{URL: address, Name: name, Timeout: httpcall.DefaultTimeout, Concurrency: httpcall.DefaultConcurrency}
}

// maxName is the length of the longest name of a method, in bytes.
const maxName = 512

// The fields of a method that alarms may bring themselves.
var (
	urlField = httpcall.URLField("Server: https, or http for HTTP/2 in plain text.", "https://shop.example:8443",
		func(m *Method) *string { return &m.URL }, serverFault)
	methodField = settings.Text(settings.FieldInfo{
		Name: "method", Flag: "method", Required: true, Max: maxName, Example: "shop.v1.Alarms/Ring",
		Help: "The service and its method.",
	}, func(m *Method) *string { return &m.Name }, nameFault)
	metadataField = httpcall.HeadersField(
		settings.FieldInfo{Name: "metadata", Flag: "metadata", Help: "Further metadata of each call."},
		func(m *Method) *map[string]string { return &m.Metadata }, metadataFault)
)

// own are the fields of a method that alarms may bring themselves.
var own = &settings.Own[Method]{
	Fields: []settings.OwnField[Method]{
		httpcall.OwnURL(urlField), {Field: methodField}, httpcall.OwnHeaders(metadataField),
	},
	Patterns: func(m *Method) settings.Patterns { return m.AlarmFields },
	With:     (*Method).with,
	Place:    func(m *Method) string { return httpcall.Origin(m.URL) },
}

// with returns a copy of m with the fields of own that are not empty.
func (m *Method) with(own *Method) *Method {
	merged := *m
	merged.URL, merged.Name = cmp.Or(own.URL, m.URL), cmp.Or(own.Name, m.Name)
	elsewhere := httpcall.Origin(merged.URL) != httpcall.Origin(m.URL)
	merged.Metadata = httpcall.MergeHeaders(m.Metadata, own.Metadata, elsewhere)
	return &merged
}

// Part is the method in the settings of an application.
var Part = &settings.Part[Method]{
	Name: "grpc", Type: "GRPC", Target: clock.TargetGRPC, Needs: "a method",
	Help:     "The method of gRPC of an application whose target is grpc.",
	New:      func() *Method { return NewMethod("", "") },
	Receiver: own.Place,
	Own:      own,
	Fields: []settings.Field[Method]{
		urlField, methodField, metadataField,
		httpcall.TimeoutField("The deadline of a call.", func(m *Method) *time.Duration { return &m.Timeout }),
		httpcall.ConcurrencyField("calls", func(m *Method) *int { return &m.Concurrency }),
		settings.AlarmFields(own.Fields, func(m *Method) *settings.Patterns { return &m.AlarmFields }),
	},
}

// serverFault returns the fault of a server's URL.
func serverFault(u *url.URL) *settings.Fault {
	if u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery {
		return settings.Wrong("must have neither a path nor a query: method names the service and its method")
	}
	return nil
}

// nameFault returns the fault of a method's name.
func nameFault(name string) *settings.Fault {
	service, method, _ := strings.Cut(name, "/")
	if !isProtoName(service) || !isProtoName(method) || strings.Contains(method, ".") {
		return settings.Wrong("must be a service and its method, as in shop.v1.Alarms/Ring")
	}
	return nil
}

// isProtoName reports whether s is a name of protobuf, with dots between its parts.
func isProtoName(s string) bool {
	for part := range strings.SplitSeq(s, ".") {
		for i, r := range part {
			letter := r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
			if !letter && (i == 0 || r < '0' || r > '9') {
				return false
			}
		}
		if part == "" {
			return false
		}
	}
	return true
}

// metadataFault returns the fault of a name of metadata in lower case.
func metadataFault(name string) *settings.Fault {
	if strings.HasPrefix(name, "grpc-") || strings.HasSuffix(name, "-bin") {
		return settings.Wrong("belongs to gRPC, or is binary: neither can be given")
	}
	return nil
}
