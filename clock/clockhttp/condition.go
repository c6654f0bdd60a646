package clockhttp

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/clockd/clockd/clock"
)

const (
	ifMatch     = "If-Match"
	ifNoneMatch = "If-None-Match"
)

// setCondition returns the condition that the headers of a set demand: If-None-Match: * (absent) or If-Match: "3" (a
// generation). What HTTP knows besides has no counterpart here and is refused: a condition is never passed over. A
// weak W/"3" is taken as "3": proxies that compress weaken every ETag, and a generation names one content all the same.
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
	return match, invalidCondition(ifNoneMatch, "If-None-Match must be *: set only if there is no alarm of this id")
}

// generationCondition returns the condition that the headers of a cancel, a kick or a discard demand.
func generationCondition(h http.Header) (clock.Condition, error) {
	if _, given := h[ifNoneMatch]; given {
		return clock.Condition{}, invalidCondition(ifNoneMatch, `only a set takes If-None-Match; here it is If-Match: "<generation>" alone`)
	}
	return matchCondition(h)
}

// noCondition refuses conditions where there is no one alarm that they could apply to. why is told with the header's name.
func noCondition(h http.Header, why string) error {
	for _, name := range []string{ifMatch, ifNoneMatch} {
		if _, given := h[name]; given {
			return invalidCondition(name, fmt.Sprintf(why, name))
		}
	}
	return nil
}

func matchCondition(h http.Header) (clock.Condition, error) {
	values, given := h[ifMatch]
	if !given {
		return clock.Condition{}, nil
	}
	if len(values) == 1 {
		if n, ok := generationOf(strings.TrimSpace(values[0])); ok {
			return clock.Condition{Kind: clock.AtGeneration, Generation: n}, nil
		}
	}
	return clock.Condition{}, invalidCondition(ifMatch, `If-Match must be one generation in quotes, like If-Match: "3"; neither * nor a list is supported`)
}

// generationOf reads an entity tag that is a generation.
func generationOf(tag string) (int64, bool) {
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
func etag(a *clock.Alarm) string {
	b := make([]byte, 0, 24)
	b = append(b, '"')
	b = strconv.AppendInt(b, a.Generation, 10)
	return string(append(b, '"'))
}
