package main

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/clockd/clockd/clock"
)

// setCommand sets an alarm.
type setCommand struct {
	keyArgs
	clientFlags

	In      string `xor:"time" required:"" placeholder:"30m" help:"Ring after this time: 30s, 30m, 2h, 7d."`
	At      string `xor:"time" required:"" placeholder:"TIME" help:"Ring at this time: RFC 3339 with an offset, or milliseconds since the epoch."`
	Latest  string `placeholder:"TIME" help:"Latest time to ring; later the alarm expires."`
	Payload string `xor:"payload" placeholder:"JSON" help:"Payload, a JSON value."`
	Text    string `xor:"payload" placeholder:"TEXT" help:"Payload, a text."`
	File    string `xor:"payload" type:"existingfile" placeholder:"FILE" help:"Payload, the bytes of a file (- for standard input)."`

	ContentType string `placeholder:"TYPE" help:"Content type of the payload, as delivered."`
	AckTimeout  string `placeholder:"30s" help:"Ring again unless the ring is acknowledged within this time."`
	MaxRings    int    `placeholder:"10" help:"With --ack-timeout: rings without acknowledgement until the alarm is dead."`
	Priority    int    `help:"0 to 9. Among alarms due at the same time, higher priorities ring first."`
	Delivery    string `enum:",at_least_once,at_most_once" default:"" help:"at_least_once (the default), or at_most_once: a ring whose outcome is unknown is not repeated."`
	If          string `enum:",absent,earlier,later" default:"" help:"Condition: absent, earlier or later."`
	Generation  int64  `placeholder:"N" help:"Condition: the alarm has this generation."`
}

// Run sends the set and prints the alarm.
func (s *setCommand) Run() error {
	body, err := s.body()
	if err != nil {
		return err
	}
	response, err := s.call(http.MethodPut, s.path(), body, ifMatch(s.Generation))
	if err != nil {
		return err
	}
	return s.print(response)
}

// body returns the body of the request. Options that are not given are left out; the server has the defaults.
func (s *setCommand) body() (map[string]any, error) {
	body := map[string]any{}
	put := func(name, value string) {
		if value != "" {
			body[name] = value
		}
	}
	put("delay", s.In)
	put("content_type", s.ContentType)
	put("ack_timeout", s.AckTimeout)
	put("text", s.Text)
	put("if", s.If)
	put("delivery", s.Delivery)
	putTime(body, "ring_at", s.At)
	putTime(body, "latest_ring_at", s.Latest)
	if s.MaxRings != 0 {
		body["max_rings"] = s.MaxRings
	}
	if s.Priority != 0 {
		body["priority"] = s.Priority
	}
	if s.Payload != "" {
		if !json.Valid([]byte(s.Payload)) {
			return nil, errors.New("--payload is not JSON; a text goes with --text")
		}
		body["payload"] = json.RawMessage(s.Payload)
	}
	return body, s.putFile(body)
}

// putTime adds a time. A text of digits only is milliseconds since the epoch, sent as a number.
func putTime(body map[string]any, name, value string) {
	if value == "" {
		return
	}
	if ms, err := strconv.ParseInt(value, 10, 64); err == nil {
		body[name] = ms
		return
	}
	body[name] = value
}

func (s *setCommand) putFile(body map[string]any) error {
	if s.File == "" {
		return nil
	}
	var content []byte
	var err error
	if s.File == "-" {
		content, err = io.ReadAll(os.Stdin)
	} else {
		content, err = os.ReadFile(s.File)
	}
	if err != nil {
		return fmt.Errorf("read the payload: %w", err)
	}
	body["base64"] = base64.StdEncoding.EncodeToString(content)
	return nil
}

func ifMatch(generation int64) http.Header {
	if generation == 0 {
		return nil
	}
	return http.Header{"If-Match": {fmt.Sprintf(`"%d"`, generation)}}
}

// cancelCommand cancels an alarm.
type cancelCommand struct {
	keyArgs
	clientFlags

	Generation int64 `placeholder:"N" help:"Condition: the alarm has this generation."`
}

// Run sends the cancel and prints the alarm.
func (c *cancelCommand) Run() error {
	response, err := c.call(http.MethodDelete, c.path(), nil, ifMatch(c.Generation))
	if err != nil {
		return err
	}
	return c.print(response)
}

// getCommand shows an alarm.
type getCommand struct {
	keyArgs
	clientFlags
}

// Run reads the alarm and prints it.
func (g *getCommand) Run() error {
	response, err := g.call(http.MethodGet, g.path(), nil, nil)
	if err != nil {
		return err
	}
	return g.print(response)
}

// listCommand lists alarms.
type listCommand struct {
	Application string `arg:"" help:"Application whose alarms to list."`
	clientFlags

	State     []string `placeholder:"STATE,..." help:"Only alarms in these states: scheduled, ringing, rung, expired, dead, cancelled, paused."`
	DueAfter  string   `placeholder:"TIME" help:"Only alarms due at this time or later."`
	DueBefore string   `placeholder:"TIME" help:"Only alarms due before this time."`
	Prefix    string   `help:"Only alarms whose business id begins with this text."`
	Limit     int      `default:"100" help:"Most alarms to list; 0: all."`
}

// page is one page of a list.
type page struct {
	Alarms     []json.RawMessage `json:"alarms"`
	NextCursor *string           `json:"next_cursor"`
}

// Run reads page after page and prints a table, or with --json one line for each alarm.
func (l *listCommand) Run() error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	if !l.JSON {
		_, _ = fmt.Fprintln(table, "BUSINESS ID\tSTATE\tRING AT\tNEXT TRY\tFAILED\tLAST ERROR")
	}
	left, cursor := l.Limit, ""
	for {
		p, err := l.page(left, cursor)
		if err != nil {
			return errors.Join(table.Flush(), err)
		}
		for _, raw := range p.Alarms {
			if err := l.row(table, raw); err != nil {
				return err
			}
		}
		left -= len(p.Alarms)
		if p.NextCursor == nil || l.Limit > 0 && left <= 0 {
			return table.Flush()
		}
		cursor = *p.NextCursor
	}
}

func (l *listCommand) page(left int, cursor string) (p page, err error) {
	limit := clock.MaxListLimit
	if l.Limit > 0 {
		limit = min(left, clock.MaxListLimit)
	}
	query := url.Values{"limit": {strconv.Itoa(limit)}}
	for name, value := range map[string]string{
		"state": strings.Join(l.State, ","), "due_after": l.DueAfter, "due_before": l.DueBefore, "prefix": l.Prefix, "cursor": cursor,
	} {
		if value != "" {
			query.Set(name, value)
		}
	}
	response, err := l.call(http.MethodGet, "/v1/applications/"+url.PathEscape(l.Application)+"/alarms?"+query.Encode(), nil, nil)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(response, &p); err != nil {
		return p, fmt.Errorf("the server's response cannot be read: %w", err)
	}
	return p, nil
}

func (l *listCommand) row(table *tabwriter.Writer, raw json.RawMessage) error {
	if l.JSON {
		_, err := fmt.Fprintf(stdout, "%s\n", raw)
		return err
	}
	var a alarmResponse
	if err := json.Unmarshal(raw, &a); err != nil {
		return fmt.Errorf("the server's response cannot be read: %w", err)
	}
	next := "-"
	if a.NextTryTime != nil {
		next = *a.NextTryTime
	}
	_, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%s\n", a.BusinessID, a.State, a.RingAt, next, a.RetryTimes, a.LastError)
	return err
}
