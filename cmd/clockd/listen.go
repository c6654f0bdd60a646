package main

import (
	"context"
	"fmt"
	"os/signal"
	"sync"
	"syscall"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/clock"
)

// listenCommand prints the rings of an application whose target is the stream.
type listenCommand struct {
	Application string `arg:"" help:"Application whose rings to print."`
	clientFlags

	Ack   bool `help:"Acknowledge each ring after it is printed, if it needs an answer."`
	Count *int `placeholder:"N" help:"End after this number of rings. Rings that have arrived by then are printed, too. Default: until a signal."`
}

// Run prints each ring as a line until it has printed Count rings or gets a signal. Faults of the stream go to standard
// error.
func (l *listenCommand) Run() error {
	if l.Count != nil && *l.Count < 1 {
		return usagef("--count must be at least 1")
	}
	c, err := l.client()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	printed := 0
	faults := faultLog{flags: l.clientFlags}
	_, _ = fmt.Fprintf(stderr, "listening to %s, Ctrl-C ends it\n", l.Application)
	l.remarkSilence(ctx)
	err = c.Consume(ctx, l.Application, client.Consumer{
		ReadAhead: 1,
		Handle: func(_ context.Context, r *client.Ring) client.Answer {
			if printRing(r, l.JSON) != nil {
				stop() // standard output is closed: the ring has no answer
				return client.Answer{}
			}
			if printed++; printed == zeroUnless(l.Count) {
				stop()
			}
			if !l.Ack {
				return client.Answer{}
			}
			return client.Answer{Kind: client.Acked}
		},
		Failed: faults.print,
	})
	return l.explained(err)
}

// remarkSilence prints a line if the application is unknown or its rings go elsewhere. Then listening prints nothing.
// The service takes a subscriber for a while after the target of the application has changed, so it does not say so.
func (l *listenCommand) remarkSilence(ctx context.Context) {
	switch listed, unknown := l.findApplication(ctx, l.Application); {
	case unknown != "":
		_, _ = fmt.Fprintln(stderr, unknown)
	case listed == nil || listed.Target == clock.TargetStream.String():
	case listed.Target == "":
		_, _ = fmt.Fprintf(stderr,
			"the node does not have the target of %s, so its alarms wait: clockd applications says more\n",
			l.Application)
	default:
		_, _ = fmt.Fprintf(stderr,
			"rings of %[1]s go to %[2]s, so clockd listen prints only rings of alarms that name the target stream; to send all to the stream: clockd application set %[1]s --target stream\n",
			l.Application, listed.Target)
	}
}

// faultLog prints faults. It leaves out a fault that comes with each try. Safe for concurrent use.
type faultLog struct {
	flags clientFlags // server of the faults
	mu    sync.Mutex
	last  string
}

func (f *faultLog) print(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if text := f.flags.explained(err).Error(); text != f.last {
		f.last = text
		_, _ = fmt.Fprintln(stderr, text)
	}
}
