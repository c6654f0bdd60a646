package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/clockhttp"
)

// forecastFrom returns the forecast for GET /v1/forecast.
func forecastFrom(forecaster clock.Forecaster, tb *clock.Timebase) clockhttp.Forecast {
	return func(ctx context.Context, q clock.ForecastQuery) (clock.Forecast, clock.Instant, error) {
		now, err := tb.AtLeast()
		if err != nil {
			return clock.Forecast{}, 0, err
		}
		q.Now, q.From = now, now-now%clock.Instant(q.Step.Milliseconds())
		f, err := forecaster.Forecast(ctx, q)
		return f, q.From, err
	}
}

// forecastCommand shows how many rings are due in the next steps.
type forecastCommand struct {
	clientFlags

	By           string `enum:"second,minute,hour,day" default:"minute" help:"Length of a step: second, minute, hour or day."`
	Count        *int   `placeholder:"N" help:"Steps to show, at most 1000 (default: 60 seconds or minutes, 24 hours, 14 days)."`
	Application  string `placeholder:"NAME" xor:"applications" help:"Only alarms of this application."`
	Applications *int   `placeholder:"N" xor:"applications" help:"Show also the rings of the N applications with the most of them, at most 20."`
}

// Run asks the server and prints a line for each step, or with --json the forecast.
func (f *forecastCommand) Run() error {
	if err := errors.Join(notZero("count", f.Count), notZero("applications", f.Applications)); err != nil {
		return err
	}
	server, err := f.client()
	if err != nil {
		return err
	}
	found, err := server.Forecast(context.Background(),
		client.ForecastQuery{
			By: f.By, Count: zeroUnless(f.Count), Application: f.Application, Applications: zeroUnless(f.Applications),
		})
	if err != nil {
		return f.explained(err)
	}
	if f.Application != "" && !slices.ContainsFunc(found.Due, func(due int64) bool { return due > 0 }) {
		defer f.remarkUnknown(f.Application)
	}
	if f.JSON {
		return printJSON(stdout, found.Raw)
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprint(table, "FROM\tDUE\tBY RULES\t")
	for _, a := range found.Applications {
		_, _ = fmt.Fprintf(table, "%s\t", a.Application)
	}
	_, _ = fmt.Fprintln(table)
	for i, due := range found.Due {
		at := found.Start.Add(time.Duration(i) * found.Step)
		_, _ = fmt.Fprintf(table, "%s\t%d\t%d\t", shown(at), due, found.Repeats[i])
		for _, a := range found.Applications {
			_, _ = fmt.Fprintf(table, "%d\t", a.Due[i])
		}
		_, _ = fmt.Fprintln(table)
	}
	err = table.Flush()
	if found.Cut {
		_, printErr := fmt.Fprintln(stdout, "the last step is counted in part, and later ones are not, because there are many alarms")
		err = errors.Join(err, printErr)
	}
	if !found.Exact {
		_, printErr := fmt.Fprintln(stdout, "estimated from a part of the alarms, because there are many")
		err = errors.Join(err, printErr)
	}
	return err
}
