package clockhttp

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Readiness is whether sets can be answered, and what else there is to say of the parts of the service.
type Readiness struct {
	Ready  bool
	Checks []Check
}

// Check is the state of one part.
type Check struct {
	Name   string // "database", "broker"
	Status string // "ok", or what it is instead
	Detail string // for a person; may be empty
}

//go:embed openapi.yaml
var openAPI []byte

func (s *Server) healthz(c echo.Context) error {
	return s.answer(c, http.StatusOK, echo.MIMETextPlainCharsetUTF8, []byte("ok\n"))
}

// readyz is 503 only when sets cannot be answered; other troubles are named with 200.
func (s *Server) readyz(c echo.Context) error {
	r := s.readiness()
	if s.stopping.Err() != nil {
		r.Ready = false
		r.Checks = append(r.Checks[:len(r.Checks):len(r.Checks)], Check{Name: "http", Status: "draining", Detail: "the node is stopping"})
	}
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return s.answerJSON(c, status, r.append(nil))
}

func (r *Readiness) append(b []byte) []byte {
	b = append(b, `{"ready":`...)
	if r.Ready {
		b = append(b, "true"...)
	} else {
		b = append(b, "false"...)
	}
	b = append(b, `,"checks":[`...)
	for i, check := range r.Checks {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(append(b, `{"name":`...), check.Name)
		b = appendString(append(b, `,"status":`...), check.Status)
		b = appendString(append(b, `,"detail":`...), check.Detail)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

func (s *Server) openAPI(c echo.Context) error {
	return s.answer(c, http.StatusOK, "application/yaml", openAPI)
}
