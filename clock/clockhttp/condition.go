package clockhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
)

const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

// setCondition returns the condition in the headers of a set: If-None-Match: * (absent) or If-Match: "3" (a
// generation). It refuses every other condition of HTTP, because a condition must not be ignored. It accepts the weak
// W/"3" as "3": proxies that compress weaken every ETag, and a generation still names one content.
func setCondition(h http.Header) (clock.Condition, error) {
	match, err := matchCondition(h)
	if err != nil {
		return match, err
	}
	values, given := h[ifNoneMatch]
	switch {
	case !given:
		return match, nil
	case match.Kind != clock.AnyRow:
		return match, clock.Invalid(clock.CodeAmbiguous, ifNoneMatch, "give If-Match or If-None-Match, not both")
	case len(values) == 1 && strings.TrimSpace(values[0]) == "*":
		return clock.Condition{Kind: clock.Absent}, nil
	}
	return match, invalidCondition(ifNoneMatch,
		"If-None-Match must be *, which means: set only if no alarm has this id")
}

// generationCondition returns the condition in the headers of a cancel, or of an action on one alarm.
func generationCondition(h http.Header) (clock.Condition, error) {
	if _, given := h[ifNoneMatch]; given {
		return clock.Condition{}, invalidCondition(ifNoneMatch,
			`only a set accepts If-None-Match; this request accepts only If-Match: "<generation>"`)
	}
	return matchCondition(h)
}

// noCondition refuses conditions for requests that do not take them. why is a format for the error, with %s for the
// header's name.
func noCondition(h http.Header, why string) error {
	for _, name := range []string{ifMatch, ifNoneMatch} {
		if _, given := h[name]; given {
			return invalidCondition(name, fmt.Sprintf(why, name))
		}
	}
	return nil
}

func matchCondition(h http.Header) (clock.Condition, error) {
	n, given, err := matchedNumber(h, "generation")
	if err != nil || !given {
		return clock.Condition{}, err
	}
	return clock.Condition{Kind: clock.AtGeneration, Generation: n}, nil
}

// versionCondition returns the version of settings in the header If-Match, settings.AnyVersion without it.
func versionCondition(h http.Header) (int64, error) {
	if _, given := h[ifNoneMatch]; given {
		return 0, invalidCondition(ifNoneMatch,
			`settings accept only If-Match: "<version>"; an application that never had settings has the version 0`)
	}
	n, given, err := matchedNumber(h, "version")
	if err != nil || given {
		return n, err
	}
	return settings.AnyVersion, nil
}

// matchedNumber returns the number in the header If-Match.
func matchedNumber(h http.Header, what string) (n int64, given bool, err error) {
	values, given := h[ifMatch]
	if !given {
		return 0, false, nil
	}
	if len(values) == 1 {
		if n, ok := numberOf(strings.TrimSpace(values[0])); ok {
			return n, true, nil
		}
	}
	return 0, true, invalidCondition(ifMatch,
		`If-Match must be one `+what+` in quotes, like If-Match: "3"; * and lists are not supported`)
}

// numberOf returns the number that an entity tag holds; ok is false if it holds none.
func numberOf(tag string) (int64, bool) {
	tag = strings.TrimPrefix(tag, "W/")
	if len(tag) < 3 || tag[0] != '"' || tag[len(tag)-1] != '"' {
		return 0, false
	}
	digits := tag[1 : len(tag)-1]
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && isDigits(digits)
}

func invalidCondition(header, detail string) error {
	return clock.Invalid(codeInvalidCondition, header, detail)
}

// etag returns the alarm's generation as an entity tag.
func etag(a *clock.Alarm) string { return entityTag(a.Generation) }

// entityTag returns a number as an entity tag.
func entityTag(n int64) string {
	b := make([]byte, 0, 24)
	b = append(b, '"')
	b = strconv.AppendInt(b, n, 10)
	return string(append(b, '"'))
}
