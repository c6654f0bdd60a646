package grpc

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

func TestMethodsAreReadAsDocumented(t *testing.T) {
	const in = `{"url":"https://a.example:8443","method":"a.B/C","metadata":{"authorization":"x"},"timeout":"1500ms"}`
	want := &Method{URL: "https://a.example:8443", Name: "a.B/C", Metadata: map[string]string{"authorization": "x"},
		Timeout: 1500 * time.Millisecond, Concurrency: 16}
	if got, err := Part.Parse([]byte(in)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
}

// withMember returns a method with a further member.
func withMember(member string) string {
	return `{"url":"https://a.example","method":"a.B/C",` + member + `}`
}

func TestWrongMethodsNameTheirField(t *testing.T) {
	for _, c := range []struct{ in, code, field string }{
		{`"https://a.example"`, clock.CodeInvalidValue, ""},
		{`{"method":"a.B/C"}`, clock.CodeRequired, "url"},
		{`{"url":"https://a.example"}`, clock.CodeRequired, "method"},
		{`{"url":"https://a.example/x","method":"a.B/C"}`, clock.CodeInvalidValue, "url"},
		{`{"url":"https://a.example?x","method":"a.B/C"}`, clock.CodeInvalidValue, "url"},
		{`{"url":"https://a.example?","method":"a.B/C"}`, clock.CodeInvalidValue, "url"},
		{`{"url":"ftp://a.example","method":"a.B/C"}`, clock.CodeInvalidValue, "url"},
		{`{"url":"https://a.example","method":"a.B"}`, clock.CodeInvalidValue, "method"},
		{`{"url":"https://a.example","method":"a.B/C/D"}`, clock.CodeInvalidValue, "method"},
		{`{"url":"https://a.example","method":"a.B/C.D"}`, clock.CodeInvalidValue, "method"},
		{`{"url":"https://a.example","method":"/a.B/C"}`, clock.CodeInvalidValue, "method"},
		{`{"url":"https://a.example","method":"a..B/C"}`, clock.CodeInvalidValue, "method"},
		{`{"url":"https://a.example","method":"` + strings.Repeat("a", 600) + `/C"}`, clock.CodeOutOfRange, "method"},
		{withMember(`"metadata":{"grpc-timeout":"1S"}`), clock.CodeInvalidValue, "metadata.grpc-timeout"},
		{withMember(`"metadata":{"x-Bin":"x"}`), clock.CodeInvalidValue, "metadata.x-Bin"},
		{withMember(`"metadata":{"x-clockd-a":"x"}`), clock.CodeInvalidValue, "metadata.x-clockd-a"},
		{withMember(`"timeout":"1ms"`), clock.CodeOutOfRange, "timeout"},
		{withMember(`"concurrency":0`), clock.CodeOutOfRange, "concurrency"},
	} {
		_, err := Part.Parse([]byte(c.in))
		if e, is := errors.AsType[*clock.Error](err); !is || e.Code != c.code || e.Field != c.field || e.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s and field %q", c.in, err, c.code, c.field)
		}
	}
}
