package clockhttp

import (
	"fmt"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/front"
	"github.com/clockd/clockd/clock/ringstream"
	"github.com/clockd/clockd/clock/settings"
)

// Streams distributes the rings of applications to their subscribers.
type Streams interface {
	// Subscribe returns a new subscriber's share of the application's rings.
	Subscribe(application string) clock.Subscription
}

// rings streams an application's rings to one subscriber until the subscriber leaves, the server stops or the rings
// go elsewhere.
func (s *Server) rings(c echo.Context) error {
	app, err := applicationOf(c)
	if err != nil {
		return err
	}
	if err := refuseBody(c); err != nil {
		return err
	}
	if err := s.RingsElsewhere(app); err != nil {
		return err
	}
	if err := front.FindVanished(c.Request()); err != nil {
		return err
	}
	sub := s.streams.Subscribe(app)
	defer sub.Close()
	defer s.openStream(c, "streamRings")()
	record := s.journal.Open(app, c.Request().Header.Get(headerLastEventID))
	defer record.Close()
	e := &eventWriter{s.newRingResponse(c)}
	e.sendHead(c.Response(), record.Opening().Resumed)
	stream := ringstream.Stream{
		Writer: e, Subscription: sub, Record: record, Timeout: s.cfg.WriteTimeout, Heartbeat: s.cfg.Heartbeat,
		Stopping:  s.front.Stopping().Done(),
		Elsewhere: func() bool { return s.RingsElsewhere(app) != nil },
	}
	return e.result(stream.Run(c.Request().Context()))
}

// RingsElsewhere returns an error if the application's rings do not go to its stream. The error says where they go.
func (s *Server) RingsElsewhere(app string) error {
	applied := settings.Applied{Target: clock.TargetStream, Subscribable: true}
	if s.settings != nil {
		applied = s.settings.Applied(app)
	}
	switch {
	case applied.Subscribable && s.streams != nil:
		return nil
	case applied.Target == clock.NoTarget:
		return unknownTarget(app)
	}
	where := "go to the target " + applied.Target.String()
	if applied.Target == clock.TargetAMQP || s.streams == nil {
		where = fmt.Sprintf("go to RabbitMQ: bind a queue to exchange %q with routing key %q and consume the queue",
			s.cfg.Exchange, app)
	}
	return &front.Problem{
		Status: http.StatusConflict, Code: codeRingsElsewhere,
		Detail: fmt.Sprintf("the rings of the application %s. To send them to the stream: clockd application set %s --target stream", where, app),
	}
}

// unknownTarget says that this node has no target for the application.
func unknownTarget(app string) error {
	return &clock.Error{
		Kind: clock.ErrUnavailable, Code: clock.CodeUnavailable, RetryAfter: time.Second,
		Detail: fmt.Sprintf("this node cannot follow the settings of application %q, so its alarms wait; see /readyz",
			app),
	}
}
