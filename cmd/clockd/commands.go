package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"os"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// setCommand sets an alarm.
type setCommand struct {
	keyArgs
	clientFlags

	In      string `xor:"time" required:"" placeholder:"30m" help:"Ring after this time: 30s, 30m, 2h, 7d. The time counts from each set: with --if absent a repeat changes nothing."`
	At      string `xor:"time" required:"" placeholder:"TIME" help:"Ring at this time: RFC 3339 with an offset, milliseconds since the epoch, or with --time-zone a local time like 2030-01-31T18:30."`
	Cron    string `xor:"time" required:"" placeholder:"EXPR" help:"Ring again and again, by a cron expression: '30 2 * * *', or @daily."`
	Every   string `xor:"time" required:"" placeholder:"1h" help:"Ring again and again, with this period, at least 1s."`
	If      string `enum:",absent,earlier,later" default:"" placeholder:"absent" help:"Condition: absent (no alarm has this id, not even one that has rung), earlier or later (only move an alarm that way)."`
	Latest  string `placeholder:"TIME" help:"Latest time to ring; later the alarm expires."`
	Payload string `xor:"payload" placeholder:"JSON" help:"Payload, a JSON value."`
	Text    string `xor:"payload" placeholder:"TEXT" help:"Payload, a text."`
	File    string `xor:"payload" type:"existingfile" placeholder:"FILE" help:"Payload, the bytes of a file (- for standard input)."`

	repeatFlags

	ContentType string            `placeholder:"TYPE" help:"Content type of the payload, as delivered."`
	AckTimeout  string            `placeholder:"30s" help:"Ring again unless the ring is acknowledged within this time."`
	Retry       map[string]string `mapsep:"," placeholder:"initial=1s,factor=2,cap=30s,limit=none" help:"Waits between tries of a ring that fails, and the most retries until the alarm is dead. Parts that are left out have their defaults."`
	MaxRings    *int              `placeholder:"10" help:"With --ack-timeout: rings without acknowledgement until the alarm is dead."`
	Priority    int               `help:"0 to 9. Among alarms due at the same time, higher priorities ring first."`
	Delivery    string            `enum:",at_least_once,at_most_once" default:"" help:"at_least_once (the default), or at_most_once: a ring whose outcome is unknown is not repeated."`
	Target      string            `placeholder:"NAME" values:"targets" help:"Where the ring goes, if the application's settings allow it: the name of a target, such as webhook, or of a destination, such as webhook/refunds."`
	Receiver    string            `placeholder:"JSON" help:"Fields of the receiver instead of those in the application's settings, which must allow them (--webhook-alarm-field and the like): an object like {\"url\": \"https://shop.example/jobs/17\"}. Needs --target."`
	Generation  *int64            `placeholder:"N" help:"Condition: the alarm has this generation."`
}

// Run sends the set and prints the alarm.
func (s *setCommand) Run() error {
	given, err := s.set()
	if err != nil {
		return err
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	return s.printAlarm(c.Set(context.Background(), s.Application, s.BusinessID, given))
}

// set returns the set that the flags describe. The server has the defaults of options that are not given.
func (s *setCommand) set() (given client.Set, err error) {
	given = client.Set{
		ContentType: s.ContentType, MaxRings: zeroUnless(s.MaxRings), Priority: s.Priority,
		Delivery: client.Delivery(s.Delivery), Target: s.Target,
	}
	if err := notZero("max-rings", s.MaxRings); err != nil {
		return given, err
	}
	if s.Receiver != "" && json.Unmarshal([]byte(s.Receiver), &given.Receiver) != nil {
		return given, usagef("--receiver must be a JSON object like {\"method\": \"PUT\"}")
	}
	if given.Retry, err = retryFlag(s.Retry); err != nil {
		return given, err
	}
	if given.If, err = s.condition(); err != nil {
		return given, err
	}
	if s.In == "" && s.At == "" && s.Cron == "" && s.Every == "" {
		return given, usagef("--in, --at, --cron and --every must not be empty")
	}
	if given.Repeat, err = s.repeat(s.Cron, s.Every, s.At); err != nil {
		return given, err
	}
	if given.Repeat == nil {
		if given.When, err = s.when(); err != nil {
			return given, err
		}
	}
	if given.LatestRingAt, err = instantFlag("latest", s.Latest); err != nil {
		return given, err
	}
	if given.AckTimeout, err = durationFlag("ack-timeout", s.AckTimeout); err != nil {
		return given, err
	}
	if s.AckTimeout != "" && given.AckTimeout == 0 {
		given.AckTimeout = client.NoAckTimeout
	}
	given.Payload, err = s.payload()
	return given, err
}

func (s *setCommand) condition() (client.Condition, error) {
	if s.If != "" && s.Generation != nil {
		return client.Condition{}, usagef("give --if or --generation, not both")
	}
	switch s.If {
	case "absent":
		return client.Absent, nil
	case "earlier":
		return client.Earlier, nil
	case "later":
		return client.Later, nil
	}
	if s.Generation != nil {
		return client.AtGeneration(*s.Generation), nil
	}
	return client.Condition{}, nil
}

func (s *setCommand) when() (client.When, error) {
	if s.In != "" {
		d, err := durationFlag("in", s.In)
		return client.After(d), err
	}
	if s.TimeZone != "" {
		return client.AtLocal(s.At, s.TimeZone), nil
	}
	if isLocal(s.At) {
		return client.When{}, usagef("--at: time %q has no offset: end it with Z or one like +01:00, or name its time zone with --time-zone", s.At)
	}
	t, err := instantFlag("at", s.At)
	return client.At(t), err
}

// instantFlag reads a time: RFC 3339 with an offset, or milliseconds since the epoch. It returns the zero time for "".
func instantFlag(name, value string) (time.Time, error) {
	if value == "" {
		return time.Time{}, nil
	}
	if isLocal(value) {
		return time.Time{}, usagef("--%s: time %q has no offset: end it with Z or one like +01:00", name, value)
	}
	i, err := clock.ParseInstant(value)
	if err != nil {
		return time.Time{}, usagef("--%s: %w", name, err)
	}
	return time.UnixMilli(int64(i)), nil
}

// isLocal reports whether the text is a time without an offset.
func isLocal(text string) bool {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}

// durationFlag reads a duration with its unit. It returns 0 for "".
func durationFlag(name, value string) (time.Duration, error) {
	if value == "" {
		return 0, nil
	}
	d, err := clock.ParseDuration(value)
	if err != nil {
		return 0, usagef("--%s: %w", name, err)
	}
	return d, nil
}

func (s *setCommand) payload() (client.Payload, error) {
	switch {
	case s.Payload != "" && !json.Valid([]byte(s.Payload)):
		return client.Payload{}, usagef("--payload is not JSON; a text goes with --text")
	case s.Payload != "":
		return client.RawJSON([]byte(s.Payload)), nil
	case s.Text != "":
		return client.Text(s.Text), nil
	case s.File == "":
		return client.Payload{}, nil
	}
	content, err := readFile(s.File)
	if err != nil {
		return client.Payload{}, fmt.Errorf("read the payload: %w", err)
	}
	return client.Bytes(content), nil
}

// readFile reads a file; "-" is standard input.
func readFile(name string) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(name)
}

// atGeneration returns the condition of --generation, none if the flag is not given.
func atGeneration(generation *int64) []client.Condition {
	if generation == nil {
		return nil
	}
	return []client.Condition{client.AtGeneration(*generation)}
}

// actOptions returns the options of an action on one alarm: the condition of --generation and the note of --note.
func actOptions(generation *int64, note string) (options []client.ActOption) {
	for _, condition := range atGeneration(generation) {
		options = append(options, condition)
	}
	if note != "" {
		options = append(options, client.Note(note))
	}
	return options
}

// cancelCommand cancels an alarm.
type cancelCommand struct {
	keyArgs
	clientFlags

	Generation *int64 `placeholder:"N" help:"Condition: the alarm has this generation."`
	Note       string `placeholder:"TEXT" help:"Why, at most 300 bytes. With it the cancel is the act of a person, which the audit and the events of the alarm have."`
}

// Run sends the cancel and prints the alarm.
func (c *cancelCommand) Run() error {
	server, err := c.client()
	if err != nil {
		return err
	}
	a, err := server.Cancel(context.Background(), c.Application, c.BusinessID, actOptions(c.Generation, c.Note)...)
	return c.printAlarm(a, c.orUnknown(c.Application, err))
}

// getCommand shows an alarm.
type getCommand struct {
	keyArgs
	clientFlags
}

// Run reads the alarm and prints it.
func (g *getCommand) Run() error {
	server, err := g.client()
	if err != nil {
		return err
	}
	a, err := server.Get(context.Background(), g.Application, g.BusinessID)
	if err := g.printAlarm(a, g.orUnknown(g.Application, err)); err != nil || g.JSON {
		return err
	}
	_, err = fmt.Fprintf(stdout, "  payload: %s\n", payloadLine(a.Payload))
	return err
}

// listFlags select the alarms of a list.
type listFlags struct {
	State     []string `placeholder:"STATE,..." values:"scheduled,ringing,rung,expired,dead,cancelled,paused" help:"Only alarms in these states: scheduled, ringing, rung, expired, dead, cancelled, paused."`
	DueAfter  string   `placeholder:"TIME" help:"Only alarms due at this time or later."`
	DueBefore string   `placeholder:"TIME" help:"Only alarms due before this time."`
	Prefix    string   `help:"Only alarms whose business id begins with this text."`
	Limit     int      `default:"100" help:"Most alarms to list; 0: all."`
}

// listCommand lists alarms.
type listCommand struct {
	Application string `arg:"" help:"Application whose alarms to list."`
	clientFlags
	listFlags
}

// Run reads page after page and prints a table, or with --json one line for each alarm.
func (l *listCommand) Run() error {
	filter, err := l.filter()
	if err != nil {
		return err
	}
	server, err := l.client()
	if err != nil {
		return err
	}
	heading := "BUSINESS ID\tSTATE\tRING AT\tNEXT TRY\tFAILED\tREPEATS\tLAST ERROR, OR WHY IT WAITS"
	if l.JSON {
		heading = ""
	}
	listed, err := listAlarms(server.List(context.Background(), l.Application, filter), newTable(heading), l.row)
	if err == nil && listed == 0 {
		l.remarkUnknown(l.Application)
	}
	l.remarkMore(listed)
	return l.explained(err)
}

// remarkMore says that the limit has ended the list, so that nobody takes it for the whole.
func (l *listFlags) remarkMore(listed int) {
	if l.Limit > 0 && listed == l.Limit {
		_, _ = fmt.Fprintf(stderr, "%d alarms, more may follow: --limit 0 lists all\n", listed)
	}
}

// listAlarms prints the alarms of a list, each with row, and returns their number.
func listAlarms(
	alarms iter.Seq2[*client.Alarm, error], rows *table, row func(*table, *client.Alarm) error,
) (listed int, err error) {
	for a, err := range alarms {
		if err != nil {
			_ = rows.abort() // the error of the list says more
			return listed, err
		}
		if err := row(rows, a); err != nil {
			return listed, err
		}
		listed++
	}
	return listed, rows.end()
}

func (l *listFlags) filter() (f client.Filter, err error) {
	f = client.Filter{States: states(l.State), Prefix: l.Prefix, Limit: max(0, l.Limit)}
	if f.DueAfter, err = instantFlag("due-after", l.DueAfter); err != nil {
		return f, err
	}
	f.DueBefore, err = instantFlag("due-before", l.DueBefore)
	return f, err
}

func states(names []string) []client.State {
	var states []client.State
	for _, name := range names {
		states = append(states, client.State(name))
	}
	return states
}

func (l *listCommand) row(rows *table, a *client.Alarm) error {
	if l.JSON {
		return printJSON(stdout, a.Raw)
	}
	return rows.row("%s\t%s\t%s\t%s\t%d\t%s\t%s",
		a.BusinessID, a.State, shown(a.RingAt), dash(shown(a.NextTryTime)), a.RetryTimes, dash(schedule(a.Repeat)),
		trouble(a))
}
