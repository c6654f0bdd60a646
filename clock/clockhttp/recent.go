package clockhttp

import (
	"slices"
	"strconv"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/stats"
)

// Recent has a sample of the latest tries of this node.
type Recent struct {
	Node  stats.Node // this node
	Tries *stats.Recent
}

// listRecent responds with tries after a cursor, the oldest first. The first request makes the node keep tries.
func (s *Server) listRecent(c echo.Context) error {
	application, after, err := s.recentQuery(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if err := front.CoverNamed(c.Request(), application); err != nil {
		return err
	}
	if s.recent.Tries == nil {
		return absentPart("this node keeps no tries")
	}
	tries, next := s.recent.Tries.Since(after)
	caller := front.CallerOf(c.Request())
	tries = slices.DeleteFunc(tries, func(t stats.Try) bool {
		return application != "" && t.Key.Application != application || !caller.Covers(t.Key.Application)
	})
	b := appendString(append(make([]byte, 0, 256+300*len(tries)), `{"node":`...), s.recent.Node.Name)
	b = appendString(append(b, `,"cursor":`...), s.recent.Node.Incarnation+"."+strconv.FormatInt(next, 10))
	b = appendList(append(b, `,"tries":`...), tries, appendTry)
	return s.respondRead(c, append(b, '}'))
}

// recentQuery reads the request's query. A cursor of another node, or of another start of this one, has no number here.
func (s *Server) recentQuery(c echo.Context) (application string, after int64, err error) {
	values, err := queryParams(c, "application", "cursor")
	if err != nil {
		return "", 0, err
	}
	if application, err = applicationParam(values); err != nil {
		return "", 0, err
	}
	cursor := values.Get("cursor")
	if cursor == "" {
		return application, 0, nil
	}
	incarnation, number, _ := strings.Cut(cursor, ".")
	if after, err = strconv.ParseInt(number, 10, 64); err != nil || after < 0 {
		return "", 0, clock.Invalid(clock.CodeInvalidCursor, "cursor",
			"the cursor is not from a list of recent tries; begin again without a cursor")
	}
	if incarnation != s.recent.Node.Incarnation {
		after = 0
	}
	return application, after, nil
}

func appendTry(t *stats.Try, b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"number":`...), t.Number, 10)
	b = appendString(append(b, `,"application":`...), t.Key.Application)
	b = appendString(append(b, `,"business_id":`...), t.Key.BusinessID)
	b = appendString(append(b, `,"message_id":`...), t.MessageID)
	b = strconv.AppendInt(append(b, `,"ring_no":`...), int64(t.RingNo), 10)
	b = appendString(append(b, `,"target":`...), t.Target.String())
	b = appendInstant(append(b, `,"due_at":`...), t.RingAt)
	b = appendInstant(append(b, `,"time":`...), t.At)
	b = appendString(append(b, `,"outcome":`...), t.Outcome.String())
	b = appendOptional(append(b, `,"error":`...), t.Reason)
	return append(b, '}')
}
