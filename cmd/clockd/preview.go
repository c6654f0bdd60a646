package main

import (
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
	"github.com/clockd/clockd/clock/repeat"
)

// repeatCommand is about rules.
type repeatCommand struct {
	List    repeatListCommand `cmd:"" help:"List repeating alarms, of all applications or of one."`
	Preview previewCommand    `cmd:"" help:"Show when a rule rings, without an alarm and without a server."`
}

// previewCommand shows when a rule rings. It needs no server: the time-zone data is in the program.
type previewCommand struct {
	repeatFlags

	Cron  string `xor:"time" required:"" placeholder:"EXPR" help:"Cron expression: '30 2 * * *', or @daily."`
	Every string `xor:"time" required:"" placeholder:"1h" help:"Period, at least 1s."`
	Count int    `default:"10" help:"Most occurrences to show, up to 1000."`
	JSON  bool   `name:"json" help:"Print the response of POST /v1/repeat/preview."`
}

// Run prints the rule in a sentence, its next occurrences, and those around the next change of the local clock.
func (p *previewCommand) Run() error {
	if p.Count < 1 || p.Count > clock.MaxOccurrences {
		return usagef("--count must be from 1 to %d", clock.MaxOccurrences)
	}
	if p.Cron == "" && p.Every == "" {
		return usagef("--cron and --every must not be empty")
	}
	given, err := p.repeat(p.Cron, p.Every, "")
	if err != nil {
		return err
	}
	rule, err := repeat.Parse(specOf(given))
	if refused, ok := errors.AsType[*repeat.Error](err); ok {
		return usagef("--%s: %s", strings.ReplaceAll(refused.Field, "_", "-"), strings.TrimPrefix(err.Error(), refused.Field+": "))
	}
	if err != nil {
		return err
	}
	now := clock.InstantOf(time.Now())
	if p.JSON {
		return printJSON(stdout, clockhttp.AppendPreview(nil, &rule, now, p.Count))
	}
	return printPreview(rule, rule.Preview(int64(now), p.Count))
}

// specOf returns what a client's rule means.
func specOf(r *client.Repeat) repeat.Spec {
	s := repeat.Spec{
		Cron: r.Cron, TimeZone: r.TimeZone, Every: r.Every.Milliseconds(), Times: r.Times,
		Jitter: r.Jitter.Milliseconds(), LatestAfter: r.LatestAfter.Milliseconds(),
		Missed: repeat.Missed(r.Missed), MissedLimit: r.MissedLimit, Overlap: repeat.Overlap(r.Overlap), DST: r.DST, SkipDates: r.SkipDates,
		MissedWindow: r.MissedWindow.Milliseconds(), PauseAfter: r.PauseAfter,
	}
	if !r.Anchor.IsZero() {
		anchor := r.Anchor.UnixMilli()
		s.Anchor = &anchor
	}
	if !r.From.IsZero() {
		s.From = r.From.UnixMilli()
	}
	if !r.Until.IsZero() {
		s.Until = r.Until.UnixMilli()
	}
	return s
}

func printPreview(rule repeat.Rule, p repeat.Preview) error {
	_, _ = fmt.Fprintf(stdout, "rings %s\n", rule.Sentence())
	if len(p.Occurrences) == 0 {
		_, err := fmt.Fprintln(stdout, "it has no occurrence from now on")
		return err
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "NUMBER\tAT\tLOCAL TIME")
	for _, o := range p.Occurrences {
		_, _ = fmt.Fprintf(table, "%d\t%s\t%s\n", o.Number, shown(time.UnixMilli(o.At)), rule.Local(o.At))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if p.Change != nil {
		_, _ = fmt.Fprintf(stdout, "the clock changes at %s, from %s to %s\n", shown(time.UnixMilli(p.Change.At)),
			offset(p.Change.Before), offset(p.Change.After))
		table.Init(stdout, 0, 0, 2, ' ', 0)
		for _, at := range p.Change.Occurrences {
			_, _ = fmt.Fprintf(table, "\t%s\t%s\n", shown(time.UnixMilli(at)), rule.Local(at))
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(stdout, "time-zone data %s\n", repeat.Data().Version())
	return err
}

// offset returns seconds as +02:00.
func offset(seconds int64) string {
	return time.Unix(0, 0).In(time.FixedZone("", int(seconds))).Format("-07:00")
}
