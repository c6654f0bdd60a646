package clockgrpc

import (
	"context"
	"errors"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/clockgrpc/clockd/v1/clockdv1connect"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
)

// Alarms is the part of the domain that this package uses. *clock.Service implements it.
type Alarms interface {
	Submit(ctx context.Context, op clock.Op) *clock.Pending
	Get(ctx context.Context, k clock.Key) (*clock.Alarm, error)
	List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) (next clock.ListPosition, err error)
	Answer(ctx context.Context, a clock.Answer) *clock.Pending
	MaxPayload() int
}

var _ Alarms = (*clock.Service)(nil)

// Streams distributes the rings of applications to their subscribers.
type Streams interface {
	// Subscribe returns a new subscriber's share of the application's rings.
	Subscribe(application string) clock.Subscription
}

// Config holds the limits of the service.
type Config struct {
	WriteTimeout time.Duration // longest time of one write of a response
	Heartbeat    time.Duration // time between two responses without rings on a silent stream of rings
	BatchBytes   int           // bytes of a batch's body, at most
	BatchItems   int           // items of a batch, at most
}

// Validate returns all errors of the configuration, joined, or nil.
func (c Config) Validate() error {
	if c.WriteTimeout <= 0 || c.Heartbeat <= 0 {
		return errors.New("write timeout and heartbeat must be positive: without them, a client can hold a stream for ever")
	}
	if c.BatchBytes < 1 || c.BatchItems < 1 {
		return errors.New("bytes and items of a batch must be at least 1")
	}
	return nil
}

// Deps holds the parts that the service calls.
type Deps struct {
	Alarms  Alarms
	Streams Streams             // source of streams of rings; nil: RingsElsewhere refuses all of them
	Journal *ringstream.Journal // what was written to streams; nil only without Streams
	Front   *front.Front        // what the service shares with the HTTP interface
	// Settings are the settings of applications. nil: calls for them are unavailable.
	Settings Settings
	// RingsElsewhere returns an error if the application's rings do not go to subscribers.
	RingsElsewhere func(application string) error
	// Ready reports whether the node can process sets.
	Ready func() bool
	// Blockers returns the reasons why a due alarm does not ring. It must not block. nil: there are none.
	Blockers func(a *clock.Alarm) []clock.Blocker
}

// Service serves clockd.v1.AlarmService, clockd.v1.ApplicationService, health checks and reflection.
type Service struct {
	cfg           Config
	alarms        Alarms
	streams       Streams
	journal       *ringstream.Journal
	front         *front.Front
	settings      Settings
	elsewhere     func(application string) error // Deps.RingsElsewhere
	ready         func() bool
	blockers      func(a *clock.Alarm) []clock.Blocker
	alarmCalls    http.Handler // of AlarmService
	settingsCalls http.Handler // of ApplicationService
	errors        *connect.ErrorWriter
}

// New returns a Service. It starts nothing.
func New(cfg Config, deps Deps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Alarms == nil || deps.Front == nil || deps.RingsElsewhere == nil || deps.Ready == nil {
		return nil, errors.New("alarms, front, rings elsewhere and ready must not be nil")
	}
	if deps.Streams != nil && deps.Journal == nil {
		return nil, errors.New("streams need a journal")
	}
	if deps.Blockers == nil {
		deps.Blockers = func(*clock.Alarm) []clock.Blocker { return nil }
	}
	s := &Service{cfg: cfg, blockers: deps.Blockers, alarms: deps.Alarms, streams: deps.Streams, journal: deps.Journal,
		front: deps.Front, settings: deps.Settings, elsewhere: deps.RingsElsewhere, ready: deps.Ready,
		errors: connect.NewErrorWriter()}
	_, s.alarmCalls = clockdv1connect.NewAlarmServiceHandler(s, options()...)
	_, s.settingsCalls = clockdv1connect.NewApplicationServiceHandler(s, options()...)
	return s, nil
}

// options returns the options of all procedures.
func options() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithInterceptors(failures{}, admission{}),
		connect.WithCodec(protoCodec{}), connect.WithCodec(jsonCodec{name: "json"}),
		connect.WithCodec(jsonCodec{name: "json; charset=utf-8"}),
		connect.WithCompression("gzip", nil, nil), // a small message could become a large one, past the memory of requests
	}
}

// smallBytes caps the body of a request that names an alarm.
const smallBytes = 16 << 10

// settingsBytes caps the body of a change of settings. JSON within JSON may take twice its bytes.
const settingsBytes = 2 * settings.MaxGiven

// setBytes caps the body of a set: in JSON, each byte of its payload may take six bytes.
func (s *Service) setBytes() int { return 6*s.alarms.MaxPayload() + smallBytes }

// Procedures returns all procedures of the service, for the server of the port.
func (s *Service) Procedures() []front.Procedure {
	all := []front.Procedure{
		{Name: "rpcSet", Path: clockdv1connect.AlarmServiceSetProcedure, Need: front.Need{Right: access.Write}, BodyBytes: s.setBytes()},
		{Name: "rpcCancel", Path: clockdv1connect.AlarmServiceCancelProcedure, Need: front.Need{Right: access.Write},
			BodyBytes: smallBytes},
		{Name: "rpcPause", Path: clockdv1connect.AlarmServicePauseProcedure, Need: front.Need{Right: access.Operate},
			BodyBytes: smallBytes},
		{Name: "rpcResume", Path: clockdv1connect.AlarmServiceResumeProcedure, Need: front.Need{Right: access.Operate},
			BodyBytes: smallBytes},
		{Name: "rpcTrigger", Path: clockdv1connect.AlarmServiceTriggerProcedure, Need: front.Need{Right: access.Operate},
			BodyBytes: smallBytes},
		{Name: "rpcBackfill", Path: clockdv1connect.AlarmServiceBackfillProcedure,
			Need: front.Need{Right: access.Operate}, BodyBytes: smallBytes},
		{Name: "rpcEndBackfill", Path: clockdv1connect.AlarmServiceEndBackfillProcedure,
			Need: front.Need{Right: access.Operate}, BodyBytes: smallBytes},
		{Name: "rpcGet", Path: clockdv1connect.AlarmServiceGetProcedure, Need: front.Need{Right: access.Read}, BodyBytes: smallBytes},
		{Name: "rpcList", Path: clockdv1connect.AlarmServiceListProcedure, Need: front.Need{Right: access.Read}, BodyBytes: smallBytes},
		{Name: "rpcBatch", Path: clockdv1connect.AlarmServiceBatchProcedure, Need: front.Need{Right: access.Write},
			BodyBytes: s.cfg.BatchBytes, Batch: true},
		{Name: "rpcRings", Path: clockdv1connect.AlarmServiceRingsProcedure, Need: front.Need{Right: access.Take, Lasting: true},
			BodyBytes: smallBytes},
		{Name: "rpcAnswer", Path: clockdv1connect.AlarmServiceAnswerProcedure, Need: front.Need{Right: access.Take},
			BodyBytes: smallBytes},
		{Name: "rpcOccurrences", Path: clockdv1connect.AlarmServiceOccurrencesProcedure, Need: front.Need{Right: access.Read},
			BodyBytes: smallBytes},
	}
	alarms := s.calls(s.alarmCalls)
	for i := range all {
		all[i].Handler = alarms
	}
	all = append(append(all, s.settingsProcedures()...), s.probeProcedures()...)
	for i := range all {
		all[i].Refuse = s.refuse
	}
	return all
}

func (s *Service) settingsProcedures() []front.Procedure {
	handler := s.calls(s.settingsCalls)
	return []front.Procedure{
		{Name: "rpcGetSettings", Path: clockdv1connect.ApplicationServiceGetSettingsProcedure,
			Need: front.Need{Right: access.Read}, BodyBytes: smallBytes, Handler: handler},
		{Name: "rpcChangeSettings", Path: clockdv1connect.ApplicationServiceChangeSettingsProcedure,
			Need: front.Need{Right: access.Admin, Named: true}, BodyBytes: settingsBytes, Handler: handler},
	}
}

// serve serves a call of any procedure.
func (s *Service) serve(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	c := &call{s: s, request: r}
	c.writer = responseWriter{call: c, inner: w, conn: http.NewResponseController(w),
		deadline: ringstream.NewDeadline(w, r, s.cfg.WriteTimeout)}
	defer c.release()
	handler.ServeHTTP(&c.writer, r.WithContext(context.WithValue(r.Context(), callKey{}, c)))
}

// call is one call of a procedure.
type call struct {
	s       *Service
	request *http.Request
	writer  responseWriter
	taken   int64 // bytes of the memory of responses that the call holds
}

type callKey struct{}

// callOf returns the call of a handler's context.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

// take takes memory until the call ends, or returns false.
func (c *call) take(bytes int64) bool {
	if !c.s.front.Memory.Take(front.Responses, bytes) {
		return false
	}
	c.taken += bytes
	return true
}

func (c *call) release() { c.s.front.Memory.Give(front.Responses, c.taken) }
