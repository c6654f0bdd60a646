package stats

import (
	"context"
	"log/slog"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	// writeLimit bounds one write of steps.
	writeLimit = 3 * time.Second
	// stepsOfWrite is the most steps of one write.
	stepsOfWrite = 60
	// deleteEvery is the time between two deletions of old steps, unless a deletion was full.
	deleteEvery = time.Minute
	// stepsOfDelete is the most steps of one deletion.
	stepsOfDelete = 1000
)

// Steps is the table in which the nodes write their steps. A store.NodeSteps implements it.
type Steps interface {
	AddSteps(ctx context.Context, steps []clock.NodeStep) error
	Steps(ctx context.Context, q clock.StepsQuery) ([]clock.NodeStep, error)
	DeleteSteps(ctx context.Context, length time.Duration, before clock.Instant, limit int) (int, error)
}

// WriterDeps are the dependencies of a Writer.
type WriterDeps struct {
	Recorder    *Recorder
	Steps       Steps
	Sightings   Sightings
	Incarnation string // of this node
	Log         *slog.Logger
}

// Writer writes the ended steps and the sightings of a node into the database, and deletes old ones of all nodes.
type Writer struct {
	deps WriterDeps

	// owned by the goroutine of Run
	next    map[Range]int64 // the first step that is not written; none: nothing was written
	deleted time.Time       // begin of the last deletion, unless it was full
	failing bool            // the last write failed
	sights  sights
}

// NewWriter returns a Writer that writes nothing before Run.
func NewWriter(deps WriterDeps) *Writer {
	return &Writer{deps: deps, next: map[Range]int64{}, sights: newSights()}
}

// Run writes each step soon after its end, until ctx ends. Then it writes the open steps, if the database takes them
// within seconds. End the ring loop and the writer of alarms before it.
func (w *Writer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			w.deps.Recorder.endOpen()
			w.failing = false // so that the log has the end
			w.write(context.WithoutCancel(ctx), 1)
			return nil
		case <-w.deps.Recorder.ended:
			w.write(ctx, 0)
		}
	}
}

// write writes all steps that are not written, and so many steps that are still open.
func (w *Writer) write(ctx context.Context, open int64) {
	ctx, cancel := context.WithTimeout(ctx, writeLimit)
	defer cancel()
	err := w.writeRange(ctx, Hour, open)
	if err == nil {
		err = w.writeRange(ctx, Day, open)
	}
	if err == nil {
		err = w.writeSightings(ctx, open > 0)
	}
	if err == nil && time.Since(w.deleted) >= deleteEvery {
		err = w.deleteOld(ctx)
	}
	if err != nil && !w.failing && ctx.Err() != context.Canceled { // the open steps follow
		w.deps.Log.Warn("could not write the figures of this node: other nodes lack them", "err", err)
	}
	w.failing = err != nil
}

// writeRange writes the steps of a range that are not written.
func (w *Writer) writeRange(ctx context.Context, of Range, open int64) error {
	first, end := w.deps.Recorder.known(of)
	if end == 0 {
		return nil
	}
	next, known := w.next[of]
	if !known || next > end { // the clock was set back
		next = first
	}
	end += open
	next = max(next, end-int64(of.Steps))
	for next < end {
		count := int(min(end-next, stepsOfWrite))
		steps, err := w.encoded(of, next, count)
		if err != nil {
			return err
		}
		if err := w.deps.Steps.AddSteps(ctx, steps); err != nil {
			return err
		}
		next += int64(count)
		w.next[of] = next
	}
	return nil
}

func (w *Writer) encoded(of Range, from int64, count int) ([]clock.NodeStep, error) {
	encoded := make([]clock.NodeStep, count)
	for i, step := range w.deps.Recorder.steps(of, from, count) {
		figures, err := step.encode()
		if err != nil {
			return nil, err
		}
		encoded[i] = clock.NodeStep{
			Length: of.Step, Begin: of.begin(from + int64(i)), Incarnation: w.deps.Incarnation, Figures: figures,
		}
	}
	return encoded, nil
}

// deleteOld deletes steps that no Joiner reads any more, and old sightings.
func (w *Writer) deleteOld(ctx context.Context) error {
	w.deleted = time.Now()
	for _, of := range []Range{Hour, Day} {
		_, end := w.deps.Recorder.known(of)
		before := of.begin(max(0, end-int64(of.Steps)-lateSteps))
		n, err := w.deps.Steps.DeleteSteps(ctx, of.Step, before, stepsOfDelete)
		if err != nil {
			return err
		}
		if n == stepsOfDelete {
			w.deleted = time.Time{} // the next write deletes more
		}
	}
	_, end := w.deps.Recorder.known(Hour)
	_, err := w.deps.Sightings.DeleteSightings(ctx, Hour.begin(end).Add(-sightingKept), sightingsOfDelete)
	return err
}
