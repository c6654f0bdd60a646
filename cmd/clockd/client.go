package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// clientFlags select the server and the form of the output.
type clientFlags struct {
	Server string `env:"CLOCKD_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Server to talk to."`
	JSON   bool   `name:"json" help:"Print the server's response unchanged."`
}

// keyArgs identify an alarm.
type keyArgs struct {
	Application string `arg:"" help:"Application the alarm belongs to."`
	BusinessID  string `arg:"" name:"business-id" help:"The application's own id of the alarm."`
}

// path returns the alarm's path. It is percent-encoded, so that every business id is possible.
func (k keyArgs) path() string {
	return "/v1/applications/" + url.PathEscape(k.Application) + "/alarms/" + escapeID(k.BusinessID)
}

// escapeID percent-encodes an id as one path segment. It encodes "." and ".." too, because clients resolve them.
func escapeID(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// alarmResponse has the fields of an alarm that the client shows.
type alarmResponse struct {
	Application  string  `json:"application"`
	BusinessID   string  `json:"business_id"`
	State        string  `json:"state"`
	Generation   int64   `json:"generation"`
	RingAt       string  `json:"ring_at"`
	LatestRingAt *string `json:"latest_ring_at"`
	NextTryTime  *string `json:"next_try_time"`
	RetryTimes   int     `json:"retry_times"`
	LastError    string  `json:"last_error"`
	RungAt       *string `json:"rung_at"`
	Answer       string  `json:"answer"`
	AnsweredBy   string  `json:"answered_by"`
	AnsweredAt   string  `json:"answered_at"`
	Attempts     []struct {
		Time    string `json:"time"`
		Outcome string `json:"outcome"`
		Error   string `json:"error"`
		By      string `json:"by"`
	} `json:"attempts"`
}

// problemResponse is a problem that the server returned.
type problemResponse struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

// errServerURL does not quote the URL, because the URL may contain a password.
var errServerURL = errors.New("the server's URL (CLOCKD_SERVER) cannot be read: it must be like http://127.0.0.1:8080")

const clientTimeout = 30 * time.Second

// call sends one request and returns the body of the response. If the status is 400 or above, it returns an error with the server's
// problem.
func (f clientFlags) call(method, path string, body any, header http.Header) ([]byte, error) {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
		content = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(context.Background(), method, strings.TrimSuffix(f.Server, "/")+path, content)
	if err != nil { // err quotes the URL, which may contain a password
		return nil, errServerURL
	}
	for name, values := range header {
		req.Header[name] = values
	}
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	client := http.Client{Timeout: clientTimeout}
	res, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w\nis clockd running there? start it with: clockd serve", err)
	}
	defer func() { _ = res.Body.Close() }()
	response, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, refusal(res, response)
	}
	return response, nil
}

// refusal returns the error for a response with a problem.
func refusal(res *http.Response, response []byte) error {
	var p problemResponse
	if json.Unmarshal(response, &p) != nil || p.Code == "" {
		return fmt.Errorf("the server returned %s", res.Status)
	}
	text := fmt.Sprintf("%s (%s", p.Detail, p.Code)
	if p.Field != "" {
		text += ", field " + p.Field
	}
	if after := res.Header.Get("Retry-After"); after != "" {
		text += ", repeat after " + after + " s"
	}
	return errors.New(text + ")")
}

// print prints an alarm: as JSON, or in lines for people with its attempts.
func (f clientFlags) print(response []byte) error {
	if f.JSON {
		_, err := fmt.Fprintf(stdout, "%s\n", bytes.TrimSpace(response))
		return err
	}
	var a alarmResponse
	if err := json.Unmarshal(response, &a); err != nil {
		return fmt.Errorf("the server's response cannot be read: %w", err)
	}
	_, err := fmt.Fprint(stdout, a.describe())
	return err
}

// describe returns the alarm and its attempts in lines for people.
func (a *alarmResponse) describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s is %s, to ring at %s, generation %d", a.Application, a.BusinessID, a.State, a.RingAt, a.Generation)
	if a.RungAt != nil {
		fmt.Fprintf(&b, ", rung at %s", *a.RungAt)
	}
	if a.Answer != "" {
		fmt.Fprintf(&b, ", answered with %s by %s at %s", a.Answer, a.AnsweredBy, a.AnsweredAt)
	}
	if a.RetryTimes > 0 {
		fmt.Fprintf(&b, ", %d failed tries", a.RetryTimes)
	}
	if a.NextTryTime != nil && *a.NextTryTime != a.RingAt {
		fmt.Fprintf(&b, ", next try at %s", *a.NextTryTime)
	}
	if a.LastError != "" {
		fmt.Fprintf(&b, ": %s", a.LastError)
	}
	b.WriteByte('\n')
	for _, t := range a.Attempts {
		fmt.Fprintf(&b, "  %s %s", t.Time, t.Outcome)
		if t.By != "" {
			fmt.Fprintf(&b, " by %s", t.By)
		}
		fmt.Fprintf(&b, " %s\n", t.Error)
	}
	return b.String()
}
