package bench

import (
	"fmt"
	"io"
	"sync/atomic"
	"time"
)

// progress prints the progress of the bench for a person.
type progress struct {
	out   io.Writer
	begun time.Time
}

func newProgress(out io.Writer) *progress {
	if out == nil {
		out = io.Discard
	}
	return &progress{out: out, begun: time.Now()}
}

// say prints a line with the time since the beginning.
func (p *progress) say(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, "%6.1f s  %s\n", time.Since(p.begun).Seconds(), fmt.Sprintf(format, args...))
}

// reportEvery is the interval at which follow prints a line.
const reportEvery = 5 * time.Second

// follow prints every few seconds how much of total is done, until stop is called.
func (p *progress) follow(what string, done *atomic.Int64, total int) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(reportEvery)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				n := done.Load()
				p.say("%s: %d of %d (%d %%)", what, n, total, 100*n/int64(total))
			}
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}
