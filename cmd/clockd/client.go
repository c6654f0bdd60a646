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
	"os"
	"strings"
	"time"
)

// clientFlags say which server to talk to, and how to print.
type clientFlags struct {
	Server string `env:"CLOCKD_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Server to talk to."`
	JSON   bool   `name:"json" help:"Print the server's answer as it is."`
}

// keyArgs name an alarm.
type keyArgs struct {
	Application string `arg:"" help:"Application the alarm belongs to."`
	BusinessID  string `arg:"" name:"business-id" help:"The application's own id of the alarm."`
}

// path returns the alarm's path, percent-encoded so that any business id survives.
func (k keyArgs) path() string {
	return "/v1/applications/" + url.PathEscape(k.Application) + "/alarms/" + escapeID(k.BusinessID)
}

// escapeID percent-encodes an id as one path segment; "." and ".." too, which clients would resolve.
func escapeID(id string) string {
	if strings.Trim(id, ".") == "" {
		return strings.ReplaceAll(id, ".", "%2E")
	}
	return url.PathEscape(id)
}

// alarmAnswer is what the client shows of an alarm.
type alarmAnswer struct {
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

// problemAnswer is an error of the server.
type problemAnswer struct {
	Status int    `json:"status"`
	Code   string `json:"code"`
	Field  string `json:"field"`
	Detail string `json:"detail"`
}

const clientTimeout = 30 * time.Second

// call sends one request and returns the body of a 2xx answer; other answers are errors that say what the server said.
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
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", f.Server, err)
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
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, err
	}
	if res.StatusCode >= http.StatusBadRequest {
		return nil, refusal(res, answer)
	}
	return answer, nil
}

// refusal puts a problem into words.
func refusal(res *http.Response, answer []byte) error {
	var p problemAnswer
	if json.Unmarshal(answer, &p) != nil || p.Code == "" {
		return fmt.Errorf("the server answered %s", res.Status)
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

// print shows an alarm as JSON or in a line for people, with its failed attempts.
func (f clientFlags) print(answer []byte) error {
	if f.JSON {
		_, err := fmt.Fprintf(os.Stdout, "%s\n", bytes.TrimSpace(answer))
		return err
	}
	var a alarmAnswer
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("the server's answer cannot be read: %w", err)
	}
	_, err := fmt.Fprint(os.Stdout, a.describe())
	return err
}

// describe returns the alarm in lines for people.
func (a *alarmAnswer) describe() string {
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
