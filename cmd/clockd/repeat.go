package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/client"
)

// repeatFlags are the options of an alarm that rings again.
type repeatFlags struct {
	TimeZone     string   `placeholder:"ZONE" help:"With --cron: IANA name of the time zone, like Europe/Berlin; default UTC. With --at: time zone of a local time."`
	Anchor       string   `placeholder:"TIME" help:"With --every: an occurrence; default: one period after the set, or the anchor of the alarm."`
	From         string   `placeholder:"TIME" help:"With --cron or --every: earliest possible occurrence."`
	Until        string   `placeholder:"TIME" help:"With --cron or --every: latest possible occurrence."`
	SkipDates    []string `placeholder:"DATE,..." help:"With --cron: local dates without an occurrence, like 2026-12-25."`
	Times        *int64   `placeholder:"N" help:"With --cron or --every: number of occurrences."`
	Jitter       string   `placeholder:"30s" help:"With --cron or --every: longest random delay of a ring."`
	LatestAfter  string   `placeholder:"10m" help:"With --cron or --every: time after an occurrence until which it may ring."`
	Missed       string   `enum:",once,skip,all" default:"" help:"With --cron or --every: which missed occurrences ring: once (the latest one, the default), skip or all."`
	MissedLimit  *int     `placeholder:"100" help:"With --missed all: most late rings."`
	MissedWindow string   `placeholder:"1h" help:"With --missed once or all: longest lateness of a missed occurrence that still rings."`
	Overlap      string   `enum:",skip,queue_one" default:"" help:"With --cron or --every: occurrences during an unfinished ring: skip (the default) or queue_one."`
	PauseAfter   *int     `placeholder:"N" help:"With --cron or --every: failed occurrences in a row that pause the alarm."`
}

// repeat returns the rule that the flags describe, nil without --cron and --every. With --at the time zone belongs to
// the local time.
func (f *repeatFlags) repeat(cron, every, at string) (*client.Repeat, error) {
	r := client.Repeat{
		Cron: cron, TimeZone: f.TimeZone, Times: zeroUnless(f.Times), Missed: client.Missed(f.Missed),
		MissedLimit: zeroUnless(f.MissedLimit), Overlap: client.Overlap(f.Overlap), SkipDates: f.SkipDates,
		PauseAfter: zeroUnless(f.PauseAfter),
	}
	var errs [7]error
	r.Every, errs[0] = durationFlag("every", every)
	r.Anchor, errs[1] = instantFlag("anchor", f.Anchor)
	r.Until, errs[2] = instantFlag("until", f.Until)
	r.Jitter, errs[3] = durationFlag("jitter", f.Jitter)
	r.From, errs[5] = instantFlag("from", f.From)
	r.LatestAfter, errs[4] = durationFlag("latest-after", f.LatestAfter)
	r.MissedWindow, errs[6] = durationFlag("missed-window", f.MissedWindow)
	zeros := errors.Join(notZero("times", f.Times), notZero("missed-limit", f.MissedLimit),
		notZero("pause-after", f.PauseAfter), notZeroDuration("every", every),
		notZeroDuration("latest-after", f.LatestAfter), notZeroDuration("missed-window", f.MissedWindow))
	if err := errors.Join(append(errs[:], zeros)...); err != nil {
		return nil, err
	}
	if at != "" {
		r.TimeZone = ""
	}
	switch {
	case cron != "" || every != "":
		return &r, nil
	case at == "" && f.TimeZone != "":
		return nil, usagef("--time-zone goes with --at or --cron: the time of --in passes alike in every time zone")
	case !reflect.ValueOf(r).IsZero() || f.Jitter != "":
		return nil, usagef("the options of repeating alarms need --cron or --every")
	}
	return nil, nil //nolint:nilnil // no rule is no error
}

// schedule returns the rule in a few words, "" for an alarm that rings once.
func schedule(r *client.Repeat) string {
	switch {
	case r == nil:
		return ""
	case r.Cron != "":
		return r.Cron + " " + r.TimeZone
	}
	return "every " + span(r.Every)
}

// describeRepeat returns the rule of a repeating alarm and its occurrence in lines for people, "" for an alarm that
// rings once.
func describeRepeat(a *client.Alarm) string {
	if a.Repeat == nil || a.Occurrence == nil {
		return ""
	}
	var b strings.Builder
	if a.RepeatSentence != "" { // else the server is older than this program
		fmt.Fprintf(&b, "  rings %s\n", a.RepeatSentence)
	}
	fmt.Fprintf(&b, "  repeats: %s", schedule(a.Repeat))
	for _, option := range []struct{ name, value string }{
		{"counted from", shown(a.Repeat.Anchor)}, {"from", shown(a.Repeat.From)}, {"until", shown(a.Repeat.Until)},
		{"except on", strings.Join(a.Repeat.SkipDates, " and ")}, {"jitter", span(a.Repeat.Jitter)},
		{"latest after", span(a.Repeat.LatestAfter)},
		{"missed", string(a.Repeat.Missed)}, {"missed window", span(a.Repeat.MissedWindow)},
		{"overlap", string(a.Repeat.Overlap)},
	} {
		if option.value != "" {
			fmt.Fprintf(&b, ", %s %s", option.name, option.value)
		}
	}
	if a.Repeat.Times > 0 {
		fmt.Fprintf(&b, ", %d times", a.Repeat.Times)
	}
	if a.Repeat.PauseAfter > 0 {
		fmt.Fprintf(&b, ", pauses after %d failed occurrences in a row", a.Repeat.PauseAfter)
	}
	o := a.Occurrence
	fmt.Fprintf(&b, "\n  occurrence %d at %s", o.Number, shown(o.At))
	if o.NextAt.IsZero() {
		b.WriteString(", the last one")
	} else {
		fmt.Fprintf(&b, ", the next one at %s", shown(o.NextAt))
	}
	if !o.TriggeredAt.IsZero() {
		fmt.Fprintf(&b, ", besides a ring that was triggered at %s", shown(o.TriggeredAt))
	}
	fmt.Fprintf(&b, "; %d rung, %d missed, %d skipped, %d failed", o.Rung, o.Missed, o.Skipped, o.Failed)
	if a.Repeat.MissedWindow > 0 {
		fmt.Fprintf(&b, ", %d outside the missed window", o.OutsideWindow)
	}
	b.WriteByte('\n')
	if f := o.Backfill; f != nil {
		fmt.Fprintf(&b, "  backfill: %d rung, %d failed, %d left", f.Rung, f.Failed, f.Left)
		if f.Left > 0 {
			fmt.Fprintf(&b, ", the next one for %s", shown(f.At))
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// span returns a duration without its zero parts, "" for 0.
func span(d time.Duration) string {
	if d == 0 {
		return ""
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// occurrencesCommand shows the next occurrences of a repeating alarm.
type occurrencesCommand struct {
	keyArgs
	clientFlags

	Count int `default:"10" help:"Most occurrences to show, up to 1000."`
}

// Run reads the occurrences and prints a table.
func (o *occurrencesCommand) Run() error {
	if o.Count < 1 {
		return usagef("--count must be from 1 to 1000")
	}
	server, err := o.client()
	if err != nil {
		return err
	}
	next, err := server.Occurrences(context.Background(), o.Application, o.BusinessID, o.Count)
	if err != nil {
		return o.explained(o.orUnknown(o.Application, err))
	}
	if o.JSON {
		return printJSON(stdout, next.Raw)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NUMBER\tAT\tLOCAL TIME\tRING AT")
	for _, n := range next.List {
		number := "-"
		if n.Number != 0 {
			number = strconv.FormatInt(n.Number, 10)
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", number, shown(n.At), n.Local, shown(n.RingAt))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "time-zone data %s\n", next.TimeZoneData)
	return err
}
