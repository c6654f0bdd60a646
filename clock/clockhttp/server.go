package clockhttp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
	"golang.org/x/time/rate"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
)

// Alarms is the part of the domain that this package uses. *clock.Service implements it.
type Alarms interface {
	Submit(ctx context.Context, op clock.Op) *clock.Pending
	Get(ctx context.Context, k clock.Key) (*clock.Alarm, error)
	List(ctx context.Context, q clock.ListQuery, take func(*clock.Alarm) bool) (next clock.ListPosition, err error)
	Answer(ctx context.Context, a clock.Answer) *clock.Pending
	KickAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	DiscardAll(ctx context.Context, q clock.DeadQuery) (clock.DeadResult, error)
	MaxPayload() int
}

var _ Alarms = (*clock.Service)(nil)

// Deps holds the parts that the server calls.
type Deps struct {
	Alarms     Alarms
	Streams    Streams                         // source of streams of rings; nil: no application rings to a stream
	Journal    *ringstream.Journal             // what was written to streams; nil only without Streams
	Pulls      Pulls                           // source of the rings that workers reserve; nil: none can be reserved
	Settings   Settings                        // settings of applications; nil: requests for them are 503
	Manifests  Manifests                       // manifests of applications; nil: requests for them are 503
	Search     Search                          // finder of alarms; nil: GET /v1/search is 503
	Repeating  Repeating                       // lister of repeating alarms; nil: GET /v1/repeating is 503
	Known      Applications                    // reader of the known applications; nil: GET /v1/applications is 503
	Blockers   Blockers                        // reasons why due alarms wait; nil: reads of alarms show none
	Forecast   Forecast                        // counter of alarms by due time; nil: GET /v1/forecast is 503
	Bulk       Bulk                            // changes of many alarms; nil: they are 503
	Stats      Stats                           // rates and lateness of all nodes; nil: GET /v1/stats is 503
	Recent     Recent                          // latest tries of this node; without Tries GET /v1/rings/recent is 503
	Nodes      Nodes                           // reader of the nodes; nil: GET /v1/nodes is 503
	Audit      Audit                           // acts of people; nil: GET /v1/audit is 503
	Sessions   Sessions                        // sessions of the console, and tokens; nil: requests for them are 503
	SignIn     SignIn                          // provider with which people sign in; nil: none
	Access     front.Access                    // who may use the interface; nil: everyone may do everything
	Readiness  func() Readiness                // state for /readyz; must not block
	Wrap       func(http.Handler) http.Handler // wraps the handler of all requests, for example to trace them; nil: nothing does. The handler sets http.Request.Pattern
	Log        *slog.Logger
	Registerer prometheus.Registerer // registry of this package's metrics
	Gatherer   prometheus.Gatherer   // source of the metrics that /metrics shows
}

// Server serves the HTTP interface.
type Server struct {
	cfg       Config
	alarms    Alarms
	streams   Streams
	journal   *ringstream.Journal
	pulls     Pulls
	readiness func() Readiness
	log       *slog.Logger
	echo      *echo.Echo
	root      http.Handler // the server, wrapped
	port      *Port        // nil before Attach
	front     *front.Front

	settings  Settings
	manifests Manifests
	search    Search
	repeating Repeating
	known     Applications
	blockers  Blockers
	forecast  Forecast
	bulk      Bulk
	stats     Stats
	recent    Recent
	readNodes Nodes
	audit     Audit
	sessions  Sessions
	signIn    SignIn
	signInLog *rate.Limiter      // of failed sign-ins in the log
	nodeReads singleflight.Group // calls of readNodes; concurrent requests share one call

	refusals briefResponses // to requests of HTTP/2 that find no memory

	requestIDs *front.RequestIDs

	bodiesUntil atomic.Pointer[time.Time] // time at which unfinished bodies are cut; nil before the server stops
}

// New returns a Server. It serves nothing before Attach, and starts no goroutine.
func New(cfg Config, deps Deps) (*Server, error) {
	if err := errors.Join(cfg.Validate(), deps.validate()); err != nil {
		return nil, err
	}
	if deps.Blockers == nil {
		deps.Blockers = noBlockers
	}
	shared, err := front.New(cfg.Config,
		front.Deps{Access: deps.Access, Log: deps.Log, Registerer: deps.Registerer})
	if err != nil {
		return nil, err
	}
	s := &Server{
		cfg: cfg, alarms: deps.Alarms, streams: deps.Streams, journal: deps.Journal, pulls: deps.Pulls,
		readiness: deps.Readiness, log: deps.Log, front: shared, readNodes: deps.Nodes, settings: deps.Settings,
		manifests: deps.Manifests,
		search:    deps.Search, repeating: deps.Repeating, known: deps.Known, blockers: deps.Blockers,
		forecast: deps.Forecast, bulk: deps.Bulk, stats: deps.Stats, recent: deps.Recent,
		audit: deps.Audit, sessions: deps.Sessions, signIn: deps.SignIn, signInLog: rate.NewLimiter(1, 10),
		requestIDs: front.NewRequestIDs(),
		refusals:   briefResponses{writeTimeout: cfg.WriteTimeout},
	}
	s.echo = s.newEcho(deps.Gatherer)
	s.root = wrapped(s, deps.Wrap)
	return s, nil
}

// wrapped returns the handler, wrapped if there is a wrapper.
func wrapped(h http.Handler, wrap func(http.Handler) http.Handler) http.Handler {
	if wrap == nil {
		return h
	}
	return wrap(h)
}

func (d *Deps) validate() error {
	if d.Alarms == nil || d.Readiness == nil || d.Log == nil || d.Registerer == nil || d.Gatherer == nil {
		return errors.New("alarms, readiness, log, registerer and gatherer must not be nil")
	}
	if d.Streams != nil && d.Journal == nil {
		return errors.New("streams need a journal")
	}
	return nil
}

// Front returns what the server shares with the other interfaces on its port.
func (s *Server) Front() *front.Front { return s.front }

// Attach makes the port hand all further requests to the server. Call it once, before Run.
func (s *Server) Attach(p *Port) {
	s.port = p
	p.handler.Store(&s.root)
}

// Run serves until ctx ends, then drains and closes the port. While it drains, it accepts no connections, ends each
// stream after the items that the stream holds, and waits for running requests, at most Config.DrainTimeout. Call it
// only once.
func (s *Server) Run(ctx context.Context) error {
	defer s.front.Stop()
	select {
	case <-s.port.ended:
		return s.port.err
	case <-ctx.Done():
	}
	end := time.Now().Add(s.cfg.DrainBody)
	s.bodiesUntil.Store(&end)
	s.front.Stop()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.cfg.DrainTimeout)
	defer cancel()
	if err := s.port.drain(ctx); err != nil {
		s.log.Warn("requests were cut because they took too long to drain", "err", err)
	}
	if !errors.Is(s.port.err, http.ErrServerClosed) {
		return s.port.err
	}
	return nil
}

// route is one method of one path.
type route struct {
	name   string // name in metrics, and operationId in openapi.yaml
	method string
	path   string // path pattern in echo's syntax
	action string // last element of the path after the business id, for requests to alarmPath; empty elsewhere
	need   front.Need
	head   bool // HEAD is served like GET, without the body: some probes send it
	handle echo.HandlerFunc
	refuse func(http.ResponseWriter, *http.Request, int, *clock.Error) // writes failures; nil: as problem+json
}

const (
	applicationPath = "/v1/applications/:application"
	alarmsPath      = applicationPath + "/alarms"
	alarmPath       = alarmsPath + "/*"
	settingsPath    = applicationPath + "/settings"
	manifestsPath   = applicationPath + "/manifests"
	ringsPath       = applicationPath + "/rings"
	ringPath        = ringsPath + "/:message_id"
)

func (s *Server) routes(g prometheus.Gatherer) []route {
	needOf := func(right access.Need) front.Need { return front.Need{Right: right} }
	read, write, take, operate := needOf(access.Read), needOf(access.Write), needOf(access.Take), needOf(access.Operate)
	admin, public, unnamed := needOf(access.Admin), front.Need{Public: true}, front.Need{Unnamed: true}
	takeLong, change := front.Need{Right: access.Take, Lasting: true}, front.Need{Right: access.Admin, Named: true}
	return []route{
		{name: "setAlarm", method: http.MethodPut, path: alarmPath, need: write, handle: s.set},
		{name: "cancelAlarm", method: http.MethodDelete, path: alarmPath, need: write, handle: s.cancel},
		{name: "getAlarm", method: http.MethodGet, path: alarmPath, need: read, handle: s.get},
		{name: "batchAlarms", method: http.MethodPost, path: alarmsPath, need: write, handle: s.batch},
		{name: "listAlarms", method: http.MethodGet, path: alarmsPath, need: read, handle: s.list},
		{name: "listApplications", method: http.MethodGet, path: "/v1/applications", need: read,
			handle: s.listApplications},
		{name: "searchAlarms", method: http.MethodGet, path: "/v1/search", need: read, handle: s.searchAlarms},
		{name: "listRepeating", method: http.MethodGet, path: "/v1/repeating", need: read, handle: s.listRepeating},
		{name: "getForecast", method: http.MethodGet, path: "/v1/forecast", need: read, handle: s.showForecast},
		{name: "getSettings", method: http.MethodGet, path: settingsPath, need: read, handle: s.getSettings},
		{name: "changeSettings", method: http.MethodPut, path: settingsPath, need: change,
			handle: s.changeSettings},
		{name: "listSettings", method: http.MethodGet, path: settingsPath + "/history", need: read,
			handle: s.listSettings},
		{name: "applyManifest", method: http.MethodPut, path: manifestsPath + "/:label", need: change,
			handle: s.applyManifest},
		{name: "listManifestsOf", method: http.MethodGet, path: manifestsPath, need: read, handle: s.listManifestsOf},
		{name: "listManifests", method: http.MethodGet, path: "/v1/manifests", need: read, handle: s.listManifests},
		{name: "listOccurrences", method: http.MethodGet, path: alarmPath, action: "occurrences", need: read,
			handle: s.occurrences},
		{name: "previewRepeat", method: http.MethodPost, path: "/v1/repeat/preview", need: read,
			handle: s.previewRepeat},
		{name: "listEvents", method: http.MethodGet, path: alarmPath, action: "events", need: read,
			handle: s.listEvents},
		{name: "cancelAsPerson", method: http.MethodPost, path: alarmPath, action: "cancel", need: write,
			handle: s.cancelAsPerson},
		{name: "kickAlarm", method: http.MethodPost, path: alarmPath, action: "kick", need: operate,
			handle: s.kick},
		{name: "discardAlarm", method: http.MethodPost, path: alarmPath, action: "discard", need: operate,
			handle: s.discard},
		{name: "pauseAlarm", method: http.MethodPost, path: alarmPath, action: "pause", need: operate,
			handle: s.pause},
		{name: "resumeAlarm", method: http.MethodPost, path: alarmPath, action: "resume", need: operate,
			handle: s.resume},
		{name: "triggerAlarm", method: http.MethodPost, path: alarmPath, action: "trigger", need: operate,
			handle: s.trigger},
		{name: "backfillAlarm", method: http.MethodPost, path: alarmPath, action: "backfill", need: operate,
			handle: s.backfill},
		{name: "endBackfill", method: http.MethodPost, path: alarmPath, action: "end-backfill", need: operate,
			handle: s.endBackfill},
		{name: "kickAlarms", method: http.MethodPost, path: applicationPath + "/kick", need: operate,
			handle: s.kickAll},
		{name: "discardAlarms", method: http.MethodPost, path: applicationPath + "/discard", need: operate,
			handle: s.discardAll},
		{name: "streamRings", method: http.MethodGet, path: ringsPath, need: takeLong,
			handle: s.rings},
		{name: "reserveRings", method: http.MethodPost, path: ringsPath + "/reserve", need: takeLong,
			handle: s.reserve},
		{name: "ackRing", method: http.MethodPost, path: ringPath + "/ack", need: take,
			handle: s.answerRing(clock.Ack)},
		{name: "releaseRing", method: http.MethodPost, path: ringPath + "/release", need: take,
			handle: s.answerRing(clock.Release)},
		{name: "buryRing", method: http.MethodPost, path: ringPath + "/bury", need: take,
			handle: s.answerRing(clock.Bury)},
		{name: "touchRing", method: http.MethodPost, path: ringPath + "/touch", need: take,
			handle: s.answerRing(clock.Touch)},
		{name: "startBulk", method: http.MethodPost, path: bulkPath, need: operate, handle: s.startBulk},
		{name: "listBulk", method: http.MethodGet, path: bulkPath, need: read, handle: s.listBulk},
		{name: "getBulk", method: http.MethodGet, path: bulkPath + "/:job", need: read, handle: s.showBulk},
		{name: "stopBulk", method: http.MethodPost, path: bulkPath + "/:job/stop", need: operate,
			handle: s.stopBulk},
		{name: "listActs", method: http.MethodGet, path: "/v1/audit", need: admin, handle: s.listActs},
		{name: "getCaller", method: http.MethodGet, path: sessionPath, need: read, handle: s.showCaller},
		{name: "startSession", method: http.MethodPost, path: sessionPath, need: read, handle: s.startSession},
		{name: "endOwnSession", method: http.MethodDelete, path: sessionPath, need: read, handle: s.endOwnSession},
		{name: "endSession", method: http.MethodDelete, path: "/v1/sessions/:session", need: admin,
			handle: s.endSession},
		{name: "listTokens", method: http.MethodGet, path: tokensPath, need: admin, handle: s.listTokens},
		{name: "getSignIn", method: http.MethodGet, path: signInPath, need: unnamed, handle: s.showSignIn},
		{name: "beginSignIn", method: http.MethodGet, path: signInPath + "/start", need: unnamed,
			handle: s.beginSignIn},
		{name: "finishSignIn", method: http.MethodGet, path: signInPath + "/callback", need: unnamed,
			handle: s.finishSignIn},
		{name: "listNodes", method: http.MethodGet, path: "/v1/nodes", need: read, handle: s.nodes},
		{name: "getStats", method: http.MethodGet, path: "/v1/stats", need: read, handle: s.showStats},
		{name: "listRecentTries", method: http.MethodGet, path: "/v1/rings/recent", need: read, handle: s.listRecent},
		{name: "healthz", method: http.MethodGet, path: "/healthz", head: true, need: public, handle: s.healthz},
		{name: "readyz", method: http.MethodGet, path: "/readyz", head: true, need: public, handle: s.readyz},
		{name: "metrics", method: http.MethodGet, path: "/metrics", need: public, handle: s.showMetrics(g)},
		{name: "openapi", method: http.MethodGet, path: "/openapi.yaml", need: read, handle: s.openAPI},
		{name: "openapi30", method: http.MethodGet, path: "/openapi-3.0.yaml", need: read, handle: s.openAPI30},
	}
}

// pattern returns the method and the path of the route as in openapi.yaml, "" for a route without a path.
func (r *route) pattern() string {
	if r.path == "" {
		return ""
	}
	path := strings.NewReplacer(":application", "{application}", "/*", "/{business_id}", ":message_id", "{message_id}",
		":job", "{job}", ":session", "{session}", ":label", "{label}").Replace(r.path)
	if r.action != "" {
		path += "/" + r.action
	}
	return r.method + " " + path
}

func (s *Server) newEcho(g prometheus.Gatherer) *echo.Echo {
	e := echo.New()
	e.IPExtractor = echo.ExtractIPDirect() // the default trusts X-Forwarded-For
	e.Logger.SetOutput(io.Discard)
	actions := alarmActions{} // of alarmPath
	for _, r := range s.routes(g) {
		if r.path != alarmPath {
			e.Add(r.method, r.path, s.handler(&r))
			if r.head {
				e.Add(http.MethodHead, r.path, s.handler(&r))
			}
			continue
		}
		actions.add(&r, s.handler(&r))
	}
	refuse := route{name: "none", need: front.Need{Right: access.Read},
		handle: func(echo.Context) error { return problemOfEcho(echo.ErrMethodNotAllowed) }}
	e.Any(alarmPath, actions.serve(s.handler(&refuse)))
	e.HTTPErrorHandler = func(err error, c echo.Context) {
		if he, ok := errors.AsType[*echo.HTTPError](err); ok {
			err = problemOfEcho(he)
		}
		fail := route{name: "none", need: front.Need{Public: true}, handle: func(echo.Context) error { return err }}
		_ = s.handler(&fail)(c)
	}
	return e
}

// handler wraps the route's handler for all routes alike: it checks the guard and the caller, turns a failure or a
// panic into a response, and measures the request.
func (s *Server) handler(r *route) echo.HandlerFunc {
	pattern := r.pattern()
	return func(c echo.Context) error {
		begun := time.Now()
		c.Request().Pattern = pattern
		s.limitRead(c)
		release, err := s.admit(r, c)
		defer release()
		if err == nil && r.need.Lasting {
			var leave func()
			leave, err = s.front.TakePlace(c.Request())
			defer leave()
		}
		if err == nil {
			err = front.Recovered(func() error { return r.handle(c) })
		}
		switch {
		case err == nil:
		case r.refuse != nil:
			s.refuse(c, err, r.refuse)
			err = nil
		default:
			err = s.respondProblem(c, err)
		}
		s.observe(r.name, c, begun)
		s.logRequest(r.name, c, begun)
		return err
	}
}

// admit admits the request of a route, with its caller. A refused request with a body closes its HTTP/1.1 connection.
// Otherwise net/http reads the body before it sends the response. Call release when the request ends.
func (s *Server) admit(r *route, c echo.Context) (release func(), err error) {
	request, release, err := s.front.Admit(c.Request(), r.need,
		func() (string, error) {
			if c.Param("application") == "" {
				return "", nil
			}
			return pathParam(c, "application")
		})
	if err != nil && request.ContentLength != 0 {
		closeAfter(c)
	}
	c.SetRequest(request)
	return release, err
}

// logRequest logs a request after its response, for those who follow single requests. Failures are logged by note.
func (s *Server) logRequest(route string, c echo.Context, begun time.Time) {
	r := c.Request()
	if s.log.Enabled(r.Context(), slog.LevelDebug) {
		s.log.Debug("request served", "request_id", front.RequestID(r), "method", r.Method, "route", route, "status",
			c.Response().Status, "took", time.Since(begun))
	}
}

// limitRead bounds the time in which the server reads the part of a body that the handler does not read.
func (s *Server) limitRead(c echo.Context) {
	if c.Request().ContentLength != 0 {
		_ = http.NewResponseController(c.Response().Writer).SetReadDeadline(time.Now().Add(s.cfg.ReadTimeout))
	}
}

// limitWrite gives the next write Config.WriteTimeout, and ends it at until at the latest. Only test recorders do not
// support it.
func (s *Server) limitWrite(c echo.Context, until time.Time) {
	deadline := time.Now().Add(s.cfg.WriteTimeout)
	if until.Before(deadline) {
		deadline = until
	}
	_ = http.NewResponseController(c.Response().Writer).SetWriteDeadline(deadline)
}

// writeBytes is the size of the parts in which a response is written. Each part has a deadline of its own.
const writeBytes = 256 << 10

// respondJSON writes a JSON document and a line break, which helps readers at a terminal. Its memory is counted but
// never refused, because the document may describe a committed change.
func (s *Server) respondJSON(c echo.Context, status int, b []byte) error {
	s.front.Memory.Force(front.Responses, int64(cap(b)))
	defer s.front.Memory.Give(front.Responses, int64(cap(b)))
	return s.respond(c, status, echo.MIMEApplicationJSON, append(b, '\n'))
}

// respondRead writes a JSON document about something that was only read. It is refused when too many responses wait for
// their clients.
func (s *Server) respondRead(c echo.Context, b []byte) error {
	if !s.front.Memory.Take(front.Responses, int64(cap(b))) {
		return tooManyResponses()
	}
	defer s.front.Memory.Give(front.Responses, int64(cap(b)))
	return s.respond(c, http.StatusOK, echo.MIMEApplicationJSON, append(b, '\n'))
}

// respond writes a whole response. The request does not fail when the client does not take the response.
func (s *Server) respond(c echo.Context, status int, contentType string, b []byte) error {
	h := c.Response().Header()
	h.Set(echo.HeaderContentType, contentType)
	h.Set(echo.HeaderContentLength, strconv.Itoa(len(b)))
	h.Set(echo.HeaderCacheControl, "no-store") // the ETag is the generation, and a state changes without a new generation
	until := time.Now().Add(s.cfg.BodyTimeout)
	for first := true; first || len(b) > 0; first = false {
		s.limitWrite(c, until)
		if first {
			c.Response().WriteHeader(status)
		}
		n := min(len(b), writeBytes)
		if _, err := c.Response().Write(b[:n]); err != nil {
			front.ResetOnClose(c.Request())
			return nil //nolint:nilerr // see above
		}
		b = b[n:]
	}
	return nil
}
