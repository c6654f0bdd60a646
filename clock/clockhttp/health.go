package clockhttp

import (
	_ "embed"
	"net/http"

	"github.com/labstack/echo/v4"
)

// Readiness says whether this node can process sets, and lists the state of each part of the service.
type Readiness struct {
	Ready  bool // false: /readyz is 503
	Checks []Check
}

// Check is the state of one part of the service.
type Check struct {
	Name   string // name of the part, like "database" or "target"
	Status string // "ok", or another short state
	Detail string // explanation for a person; may be empty
}

//go:embed openapi.yaml
var openAPI []byte

// openAPI30 is openAPI in OpenAPI 3.0, made by tools/openapi30.
//
//go:embed openapi-3.0.yaml
var openAPI30 []byte

// healthy is the body of /healthz.
var healthy = []byte("ok\n")

func (s *Server) healthz(c echo.Context) error {
	return s.respond(c, http.StatusOK, echo.MIMETextPlainCharsetUTF8, healthy)
}

// readyz is 503 only when this node cannot process sets. It reports other faults with status 200.
func (s *Server) readyz(c echo.Context) error {
	r := s.readyNow()
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	return s.respondJSON(c, status, r.append(nil))
}

// readyNow returns the readiness of the node and of this server.
func (s *Server) readyNow() Readiness {
	r := s.readiness()
	if s.front.Stopping().Err() != nil {
		r.Ready = false
		r.Checks = append(r.Checks[:len(r.Checks):len(r.Checks)],
			Check{Name: "http", Status: "draining", Detail: "the node is stopping"})
	}
	return r
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
	return s.respond(c, http.StatusOK, "application/yaml", openAPI)
}

func (s *Server) openAPI30(c echo.Context) error {
	return s.respond(c, http.StatusOK, "application/yaml", openAPI30)
}
