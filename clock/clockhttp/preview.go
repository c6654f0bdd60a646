package clockhttp

import (
	"fmt"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/repeat"
)

// previewRequest is the body of a request for a preview.
type previewRequest struct {
	rule  *repeat.Rule
	from  clock.Instant // NoInstant: now
	count int
}

// previewRepeat shows what a rule would do. It stores nothing.
func (s *Server) previewRepeat(c echo.Context) error {
	b, err := s.readBody(c, smallBytes, front.LargeBodies)
	if err != nil {
		return err
	}
	request, err := decodePreview(b.bytes)
	b.release()
	if err != nil {
		return err
	}
	return s.respondRead(c, AppendPreview(nil, request.rule, request.from, request.count))
}

func decodePreview(body []byte) (*previewRequest, error) {
	r := &previewRequest{from: clock.NoInstant, count: clock.DefaultOccurrences}
	err := decodeOptional(body, []string{"count", "from", "repeat"}, func(name string, raw []byte) (err error) {
		switch name {
		case "count":
			return decodeInt(raw, name, &r.count)
		case "from":
			return decodeInstant(raw, name, &r.from)
		default:
			r.rule, err = decodeRule(raw)
			return err
		}
	})
	switch {
	case err != nil:
		return nil, err
	case r.rule == nil:
		return nil, clock.Invalid(clock.CodeRequired, "repeat", "repeat is missing")
	case r.count < 1 || r.count > clock.MaxOccurrences:
		return nil, clock.Invalid(clock.CodeOutOfRange, "count",
			fmt.Sprintf("count must be from 1 to %d", clock.MaxOccurrences))
	}
	if r.from == clock.NoInstant {
		r.from = clock.InstantOf(time.Now())
	}
	return r, nil
}

// AppendPreview appends what the rule does after an instant: its sentence, at most count occurrences, and those around
// the next change of the local clock, as the schema Preview of openapi.yaml.
func AppendPreview(b []byte, rule *repeat.Rule, from clock.Instant, count int) []byte {
	p := rule.Preview(int64(from), count)
	b = appendString(append(b, `{"sentence":`...), rule.Sentence())
	b = appendRule(append(b, `,"repeat":`...), rule)
	b = appendString(append(b, `,"time_zone_data":`...), repeat.Data().Version())
	b = appendList(append(b, `,"occurrences":`...), p.Occurrences, func(o *repeat.Occurrence, b []byte) []byte {
		b = strconv.AppendInt(append(b, `{"number":`...), o.Number, 10)
		return append(appendTimes(append(b, ','), rule, o.At), '}')
	})
	return append(appendClockChange(b, rule, p.Change), '}')
}

// appendClockChange appends the member clock_change: null, or a change of the rule's local clock.
func appendClockChange(b []byte, rule *repeat.Rule, change *repeat.ClockChange) []byte {
	b = append(b, `,"clock_change":`...)
	if change == nil {
		return append(b, "null"...)
	}
	b = appendInstant(append(b, `{"at":`...), clock.Instant(change.At))
	b = strconv.AppendInt(append(b, `,"offset_before":`...), change.Before, 10)
	b = strconv.AppendInt(append(b, `,"offset_after":`...), change.After, 10)
	b = appendList(append(b, `,"occurrences":`...), change.Occurrences, func(at *int64, b []byte) []byte {
		return append(appendTimes(append(b, '{'), rule, *at), '}')
	})
	return append(b, '}')
}

// appendTimes appends the members at and local of an occurrence.
func appendTimes(b []byte, rule *repeat.Rule, at int64) []byte {
	b = appendInstant(append(b, `"at":`...), clock.Instant(at))
	return appendString(append(b, `,"local":`...), rule.Local(at))
}
