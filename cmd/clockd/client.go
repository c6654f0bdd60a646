package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/clockd/clockd/client"
)

// serverFlags select the server.
type serverFlags struct {
	Server string `env:"CLOCKD_SERVER" default:"http://127.0.0.1:8080" placeholder:"URL" help:"Server to talk to."`
	Token  string `env:"CLOCKD_TOKEN" placeholder:"TOKEN" help:"Access token. Better in the environment, or in a file that CLOCKD_TOKEN_FILE names: other users see flags."`
	CA     string `name:"ca" env:"CLOCKD_CA" placeholder:"FILE" help:"PEM file of the authorities of the server's certificate (default: the system's)."`
	Cert   string `env:"CLOCKD_CERT" placeholder:"FILE" help:"PEM file of this client's certificate, with --key."`
	Key    string `env:"CLOCKD_KEY" placeholder:"FILE" help:"PEM file of the key of the client's certificate."`
}

// clientFlags select the server and the form of the output.
type clientFlags struct {
	serverFlags

	JSON bool `name:"json" help:"Print the server's response unchanged."`
}

// keyArgs identify an alarm.
type keyArgs struct {
	Application string `arg:"" help:"Application the alarm belongs to."`
	BusinessID  string `arg:"" name:"business-id" help:"The application's own id of the alarm."`
}

const (
	clientTimeout = 30 * time.Second
	// clientTries is the most tries of a request. It is small, because a person waits.
	clientTries = 3
)

// errServerURL does not quote the URL, because the URL may contain a password.
var errServerURL = errors.New("the server's URL (CLOCKD_SERVER) cannot be read: it must be like http://127.0.0.1:8080")

// defaultServer is the default of serverFlags.
const defaultServer = "http://127.0.0.1:8080"

// errTokenText does not quote the token.
var errTokenText = errors.New("the access token (CLOCKD_TOKEN, CLOCKD_TOKEN_FILE or --token) has a line break or another character that no token has: give the token alone, as clockd token create has printed it")

// client returns the client of the server. more are further options.
func (f serverFlags) client(more ...client.Option) (*client.Client, error) {
	options := append([]client.Option{
		client.WithTries(clientTries), client.WithTryTimeout(clientTimeout), client.WithToken(f.Token),
	}, more...)
	if f.CA != "" || f.Cert != "" || f.Key != "" {
		if !f.secure() {
			return nil, usage(errNoTLS)
		}
		cfg, err := outgoingTLS{"the server", f.CA, f.Cert, f.Key}.config()
		if err != nil {
			return nil, usage(err)
		}
		options = append(options, client.WithTLS(cfg))
	}
	c, err := client.New(f.Server, options...)
	switch {
	case errors.Is(err, client.ErrToken):
		return nil, usage(errTokenText)
	case err != nil:
		return nil, usage(errServerURL)
	}
	return c, nil
}

// secure reports whether the server speaks TLS.
func (f serverFlags) secure() bool {
	u, err := url.Parse(f.Server)
	return err == nil && u.Scheme == "https"
}

// printAlarm prints the alarm that a call returned: as JSON, or in lines for people with its attempts.
func (f clientFlags) printAlarm(a *client.Alarm, err error) error {
	if err != nil {
		return f.explained(err)
	}
	if f.JSON {
		return printJSON(stdout, a.Raw)
	}
	_, err = fmt.Fprint(stdout, describe(a))
	return err
}

// printJSON prints a response of the server as one line.
func printJSON(out io.Writer, raw json.RawMessage) error {
	_, err := fmt.Fprintf(out, "%s\n", bytes.TrimSpace(raw))
	return err
}

// shown returns a time as the server writes it, "" for the zero time.
func shown(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z")
}

// describeBlocker returns a reason why due alarms wait in words.
func describeBlocker(b client.Blocker) string {
	if b.Target == "" {
		return b.Detail
	}
	return b.Target + ": " + b.Detail
}

// trouble returns why a due alarm waits, else the last error of the alarm.
func trouble(a *client.Alarm) string {
	if len(a.Blockers) == 0 {
		return oneLine(a.LastError)
	}
	return "waits: " + describeBlocker(a.Blockers[0])
}

// describe returns the alarm and its attempts in lines for people.
func describe(a *client.Alarm) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%s is %s, %s, generation %d", a.Application, a.BusinessID, a.State, describeTimes(a), a.Generation)
	if a.State != client.Rung && a.State != client.Ringing && !a.RungAt.IsZero() {
		fmt.Fprintf(&b, ", last rang at %s", shown(a.RungAt))
	}
	if a.Answer != "" {
		fmt.Fprintf(&b, ", answered with %s by %s at %s", a.Answer, a.AnsweredBy, shown(a.AnsweredAt))
	}
	if a.RetryTimes > 0 {
		fmt.Fprintf(&b, ", %d failed tries", a.RetryTimes)
	}
	if !a.NextTryTime.IsZero() && !a.NextTryTime.Equal(a.RingAt) {
		fmt.Fprintf(&b, ", next try at %s", shown(a.NextTryTime))
	}
	if a.LastError != "" {
		fmt.Fprintf(&b, ": %s", oneLine(a.LastError))
	}
	b.WriteByte('\n')
	if a.LocalRingAt != "" {
		fmt.Fprintf(&b, "  local time: %s %s\n", a.LocalRingAt, a.TimeZone)
	}
	b.WriteString(describeOptions(a))
	for _, blocker := range a.Blockers {
		fmt.Fprintf(&b, "  waits: %s\n", describeBlocker(blocker))
	}
	if a.RepeatEnded {
		b.WriteString("  it repeated until now: the set has no rule\n")
	}
	b.WriteString(describeRepeat(a))
	for _, t := range a.Attempts {
		fmt.Fprintf(&b, "  %s %s", shown(t.Time), t.Outcome)
		if t.By != "" {
			fmt.Fprintf(&b, " by %s", t.By)
		}
		fmt.Fprintf(&b, " %s\n", oneLine(t.Error))
	}
	return b.String()
}

// describeTimes returns when an alarm rang or ended, else when it is to ring.
func describeTimes(a *client.Alarm) string {
	switch {
	case (a.State == client.Rung || a.State == client.Ringing) && !a.RungAt.IsZero():
		return "rang at " + shown(a.RungAt)
	case !a.FinishedAt.IsZero():
		return fmt.Sprintf("ended at %s, was to ring at %s", shown(a.FinishedAt), shown(a.RingAt))
	}
	return "to ring at " + shown(a.RingAt)
}

// describeOptions returns the options of an alarm in lines for people. It leaves out those that the alarm does not
// have, and a priority of 0.
func describeOptions(a *client.Alarm) string {
	var b strings.Builder
	if a.Priority != 0 {
		fmt.Fprintf(&b, "  priority: %d\n", a.Priority)
	}
	if a.Target != "" {
		fmt.Fprintf(&b, "  target: %s\n", a.Target)
	}
	if receiver, err := json.Marshal(a.Receiver); err == nil && a.Receiver != nil {
		fmt.Fprintf(&b, "  receiver: %s\n", receiver)
	}
	if a.AckTimeout > 0 {
		fmt.Fprintf(&b, "  ack timeout: %s, max rings: %d\n", span(a.AckTimeout), a.MaxRings)
	}
	return b.String()
}
