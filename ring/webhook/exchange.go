package webhook

import (
	"net/http"
	"strconv"
	"time"

	"github.com/clockd/clockd/ring/httpcall"
)

// exchange is the request of one ring.
type exchange struct {
	request *http.Request
	body    *httpcall.Body
	secrets []string // of the endpoint; see Secrets
}

// Do sends the request and reads the response; see httpcall.Exchange.
func (x *exchange) Do(c *httpcall.Call) error {
	res, err := c.Transport().RoundTrip(x.request.WithContext(c.Context()))
	if err != nil {
		return err
	}
	c.Replied(statusClass(res.StatusCode))
	if isSuccess(res.StatusCode) { // the body is read only to keep the connection
		c.Report(outcomeOf(res, nil, time.Now()))
		readBody(res, c.StopReading)
		return nil
	}
	c.Report(outcomeOf(res, readBody(res, c.StopReading), time.Now()))
	return nil
}

// Size returns the bytes of the body.
func (x *exchange) Size() int { return x.body.Size() }

// Drop forgets a large body.
func (x *exchange) Drop() { x.body.Drop() }

// Secrets returns the endpoint's headers, query and secrets, and the signatures of the request; see httpcall.Exchange.
func (x *exchange) Secrets() []string {
	return append(httpcall.SignatureSecrets(x.request.Header, headerSignature), x.secrets...)
}

// statusClasses are the classes of statuses.
var statusClasses = []string{"1xx", "2xx", "3xx", "4xx", "5xx"}

// statusClass returns the class of a status. A status beyond 599 is as bad as 5xx.
func statusClass(status int) string {
	if status >= 600 {
		return "5xx"
	}
	return strconv.Itoa(status/100) + "xx"
}
