package clockgrpc

import (
	"bytes"
	"context"
	"fmt"

	"google.golang.org/protobuf/proto"

	"github.com/clockd/clockd/clock"
	clockdv1 "github.com/clockd/clockd/clock/clockgrpc/clockd/v1"
)

const (
	// ListBytes is the size in bytes of the largest page with more than one alarm. The page ends before the alarm that
	// would exceed it. Clients of gRPC refuse messages over 4 MiB by default.
	ListBytes = 4<<20 - 4<<10
	// listRead is the most alarms that one statement reads. It is small because the rows after the end of a page are
	// wasted.
	listRead = 100
	// alarmBytes is more than an alarm takes in a page besides the alarm's own bytes.
	alarmBytes = 16
)

// List serves the procedure List.
func (s *Service) List(ctx context.Context, request *clockdv1.ListRequest) (*clockdv1.ListResponse, error) {
	q, err := listQuery(request)
	if err != nil {
		return nil, err
	}
	read, cancel := context.WithTimeout(ctx, clock.RequestTimeout)
	defer cancel()
	p := listPage{service: s, call: callOf(ctx)}
	for limit := q.Limit; ; {
		q.Limit = min(limit-len(p.alarms), listRead)
		before := len(p.alarms)
		next, err := s.alarms.List(read, q, p.add)
		if err != nil {
			return nil, clock.UnavailableIfLate(read, err)
		}
		switch {
		case p.full && len(p.alarms) == 0:
			return nil, errTooManyResponses
		case next.IsZero():
			return &clockdv1.ListResponse{Alarms: p.alarms}, nil
		case p.full || len(p.alarms) == limit || len(p.alarms)-before < q.Limit: // the last case: the statement has looked at as many alarms as it may
			return &clockdv1.ListResponse{Alarms: p.alarms, NextCursor: clock.EncodeCursor(q.Application, next)}, nil
		}
		q.After = next
	}
}

// listQuery returns the query of a request.
func listQuery(request *clockdv1.ListRequest) (clock.ListQuery, error) {
	q := clock.ListQuery{
		Application: request.Application, DueAfter: clock.NoInstant, DueBefore: clock.NoInstant, Prefix: request.Prefix,
		Limit: int(request.Limit),
	}
	if q.Limit == 0 {
		q.Limit = clock.DefaultListLimit
	}
	if err := q.Validate(); err != nil {
		return q, err
	}
	for _, given := range request.States {
		state := clock.State(given)
		if int32(state) != int32(given) || !state.Known() {
			return q, clock.Invalid(clock.CodeInvalidValue, "states",
				fmt.Sprintf("states has the unknown value %d", given))
		}
		q.States = append(q.States, state)
	}
	if err := readInstant(request.DueAfter, "due_after", &q.DueAfter); err != nil {
		return q, err
	}
	if err := readInstant(request.DueBefore, "due_before", &q.DueBefore); err != nil {
		return q, err
	}
	if request.Cursor == "" {
		return q, nil
	}
	var err error
	q.After, err = clock.DecodeCursor(q.Application, request.Cursor)
	return q, err
}

// listPage collects the alarms of a page, as long as there is memory.
type listPage struct {
	service *Service
	call    *call
	alarms  []*clockdv1.Alarm
	bytes   int
	full    bool // true: an alarm has not found room
}

// add adds the alarm and returns true. It returns false if the page is full or no memory is left.
func (p *listPage) add(a *clock.Alarm) bool {
	kept := *a
	kept.Payload = bytes.Clone(a.Payload) // the store may use the bytes again
	m := p.service.blockedAlarmOf(&kept)
	size := alarmBytes + proto.Size(m)
	if len(p.alarms) > 0 && p.bytes+size > ListBytes || !p.call.take(int64(size)) {
		p.full = true
		return false
	}
	p.alarms = append(p.alarms, m)
	p.bytes += size
	return true
}
