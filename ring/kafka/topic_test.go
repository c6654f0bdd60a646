package kafka

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestTopicsAreReadAsDocumented(t *testing.T) {
	for in, want := range map[string]*Topic{
		`{"topic":"shop.rings"}`:                            NewTopic("shop.rings"),
		`{"topic":"a","key":"none","headers":"lean"}`:       {Name: "a", Key: KeyNone, Headers: LeanHeaders},
		`{"topic":"a_-","key":"application"}`:               {Name: "a_-", Key: KeyApplication, Headers: FullHeaders},
		`{"topic":"` + strings.Repeat("x", maxTopic) + `"}`: NewTopic(strings.Repeat("x", maxTopic)),
	} {
		if got, err := Part.Parse([]byte(in)); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
}

func TestWrongTopicsNameTheirField(t *testing.T) {
	for _, c := range []struct{ in, code, field string }{
		{`"shop"`, clock.CodeInvalidValue, ""},
		{`{}`, clock.CodeRequired, "topic"},
		{`{"topic":1}`, clock.CodeInvalidValue, "topic"},
		{`{"topic":"a/b"}`, clock.CodeInvalidValue, "topic"},
		{`{"topic":".."}`, clock.CodeInvalidValue, "topic"},
		{`{"topic":"` + strings.Repeat("x", maxTopic+1) + `"}`, clock.CodeOutOfRange, "topic"},
		{`{"topic":"a","key":"hash"}`, clock.CodeInvalidValue, "key"},
		{`{"topic":"a","headers":"none"}`, clock.CodeInvalidValue, "headers"},
		{`{"topic":"a","acks":"all"}`, clock.CodeUnknownField, "acks"},
	} {
		_, err := Part.Parse([]byte(c.in))
		if e, is := errors.AsType[*clock.Error](err); !is || e.Code != c.code || e.Field != c.field || e.Detail == "" {
			t.Errorf("%.80s: %+v, want code %s and field %q", c.in, err, c.code, c.field)
		}
	}
}

func TestHeadersOfAnAlarmCannotPassForClockds(t *testing.T) {
	for name, ok := range map[string]bool{
		"shop": true, "X-Shop": true, "ä b": true,
		"": false, "a\x00": false, "x-rung-at": false, "X-Rung-At": false, "MESSAGE-ID": false, "x-occurrence": false,
	} {
		if fault := headerFault(nil, name); (fault == nil) != ok {
			t.Errorf("%q: %+v", name, fault)
		}
	}
}
