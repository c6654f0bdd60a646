package client

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// Reserve waits for rings of an application whose target is pull, and returns up to count of them (1 to 64). It returns
// none if no alarm was due within wait (100 ms to 1 min; 0: 20 s). Answer each ring before its AckTimeout has passed:
// Ack finishes it.
//
// A reserve whose request may have reached the service is not repeated: the repeat would reserve further rings. Its
// error has Unconfirmed set. Rings of a response that the service could not write ring again under the same message id.
// Rings of a lost response ring again after their AckTimeout.
func (c *Client) Reserve(ctx context.Context, application string, count int, wait time.Duration) ([]Ring, error) {
	var body struct {
		Count int       `json:"count"`
		Wait  *duration `json:"wait,omitempty"`
	}
	body.Count, body.Wait = count, given(wait)
	if wait == 0 {
		wait = defaultReserveWait
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, &Error{Code: CodeInvalidValue, Detail: err.Error(), Err: err}
	}
	var reserved struct {
		Rings []Ring `json:"rings"`
	}
	err = c.call(ctx, &request{
		method: http.MethodPost, path: applicationPath(application) + "/rings/reserve", body: b, resend: true,
		wait: wait,
	}, &reserved)
	return reserved.Rings, err
}

// defaultReserveWait is the service's default of a reserve's wait.
const defaultReserveWait = 20 * time.Second
