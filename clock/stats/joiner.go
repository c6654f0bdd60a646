package stats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/clockd/clockd/clock"
)

const (
	// joinEvery is the least time between two reads of the database.
	joinEvery = time.Second
	// joinAfterFailure is the time from a failed read to the next one.
	joinAfterFailure = 4 * time.Second
	// joinLimit bounds one read.
	joinLimit = 3 * time.Second
	// lateSteps are the steps that are read again, because a node may have written them late.
	lateSteps = 12
	// rereadEvery is the time after which all steps are read again.
	rereadEvery = 5 * time.Minute
	// setBack is the time by which the database's clock must be set back for a node to begin its history again.
	setBack = time.Hour
	// missingSteps is the most of the latest steps that a node may not have written yet; then it is missing.
	missingSteps = 2
	// stepsOfRead is the most steps of one page.
	stepsOfRead = 1000
)

// Node is a living node.
type Node struct {
	Name        string
	Incarnation string
	Started     clock.Instant
}

// Missing is a node without figures.
type Missing struct {
	Node   string // empty: any other node
	Reason string // a sentence
}

// Joined has the figures of all nodes.
type Joined struct {
	Steps   []Step        // of the whole range, the oldest first; nil: the database's clock was never known
	Start   clock.Instant // begin of the first step
	Nodes   []string      // names of the living nodes with figures, sorted; this node is among them
	Missing []Missing     // living nodes without figures, by name
}

// JoinerDeps are the dependencies of a Joiner.
type JoinerDeps struct {
	Recorder *Recorder
	Steps    Steps
	Self     Node // this node
	// Nodes returns the living nodes. It may include this one.
	Nodes func(ctx context.Context) ([]Node, error)
	Log   *slog.Logger
}

// Joiner adds the figures of all nodes, also of nodes that have ended. All methods are safe for concurrent use.
type Joiner struct {
	deps   JoinerDeps
	flight singleflight.Group
	others map[Range]*others // each is used by one flight at a time
}

// NewJoiner returns a Joiner that has read nothing.
func NewJoiner(deps JoinerDeps) *Joiner {
	j := &Joiner{deps: deps, others: map[Range]*others{}}
	for _, of := range []Range{Hour, Day} {
		j.others[of] = newOthers(of)
	}
	return j
}

// Last returns the steps of a range that have ended. Without the database they have the figures of this node alone.
// Calls share the result, so the caller must not change it.
func (j *Joiner) Last(ctx context.Context, of Range) (Joined, error) {
	done := j.flight.DoChan(of.Name, func() (any, error) {
		return j.others[of].last(context.WithoutCancel(ctx), &j.deps), nil
	})
	select {
	case r := <-done:
		joined, _ := r.Val.(Joined)
		return joined, nil
	case <-ctx.Done():
		return Joined{}, ctx.Err()
	}
}

// others are the steps of one range of the other nodes, as far as they were read.
type others struct {
	steps  *series
	seen   map[seenStep]bool // steps in the range that were read
	newest map[string]int64  // by incarnation: the newest step that was read
	odd    map[string]int64  // by incarnation: the newest step that could not be decoded
	nodes  []Node            // living nodes

	read   time.Time // end of the last read; zero: none
	failed bool      // the last read failed
	whole  time.Time // begin of the last read of the whole range
	end    int64     // the open step of the last read that did not fail

	joined Joined // the last result
	made   int64  // the open step for which it was made; 0: there was a read since
}

// seenStep is a step of a node.
type seenStep struct {
	incarnation string
	number      int64
}

func newOthers(of Range) *others {
	return &others{steps: newSeries(of), seen: map[seenStep]bool{}, newest: map[string]int64{}, odd: map[string]int64{}}
}

// last returns the joined steps, read and joined again if it is time to.
func (o *others) last(ctx context.Context, deps *JoinerDeps) Joined {
	_, end := deps.Recorder.known(o.steps.Range)
	if end == 0 {
		return Joined{}
	}
	pause := joinEvery
	if o.failed {
		pause = joinAfterFailure
	}
	if time.Since(o.read) >= pause {
		o.refresh(ctx, deps, end)
		o.made = 0
	}
	if o.made != end {
		o.joined, o.made = o.join(deps, end), end
	}
	return o.joined
}

// refresh reads the living nodes, and the steps that others have written since the last read.
func (o *others) refresh(ctx context.Context, deps *JoinerDeps, end int64) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	of := o.steps.Range
	if of.begin(o.end).Sub(of.begin(end)) > setBack { // the clock was set back far, and the nodes have begun again
		*o = *newOthers(of)
	}
	begun, from := time.Now(), o.oldest(end)
	whole := begun.Sub(o.whole) >= rereadEvery
	if !whole {
		from = max(from, o.end-lateSteps)
	}
	nodes, err := deps.Nodes(ctx)
	if err == nil {
		err = o.readSteps(ctx, deps, from, end)
	}
	if err != nil && !o.failed {
		deps.Log.Warn("could not read the figures of other nodes", "range", of.Name, "err", err)
	}
	if o.read, o.failed = time.Now(), err != nil; err != nil {
		return
	}
	if o.nodes, o.end = nodes, end; whole {
		o.whole = begun
	}
	o.forget(end)
}

// errManyNodes says that a page was full of steps with one begin.
var errManyNodes = fmt.Errorf("a step has more than %d nodes", stepsOfRead-1)

// readSteps adds all steps from a step on, page by page.
func (o *others) readSteps(ctx context.Context, deps *JoinerDeps, from, end int64) error {
	of := o.steps.Range
	for begin := of.begin(max(0, from)); ; {
		page, err := deps.Steps.Steps(ctx,
			clock.StepsQuery{Length: of.Step, From: begin, Until: of.begin(end), Limit: stepsOfRead})
		if err != nil {
			return err
		}
		o.add(page, deps.Self.Incarnation, end)
		switch last := len(page) - 1; {
		case len(page) < stepsOfRead:
			return nil
		case page[last].Begin == page[0].Begin:
			return errManyNodes
		default:
			begin = page[last].Begin // the steps of this begin come again; they are added once
		}
	}
}

// oldest returns the first step of the range, of a Joined that ends early.
func (o *others) oldest(end int64) int64 { return end - int64(o.steps.Steps) - missingSteps }

// add adds the steps of the range that were not added before.
func (o *others) add(steps []clock.NodeStep, self string, end int64) {
	oldest := o.oldest(end)
	for i := range steps {
		s := &steps[i]
		number := o.steps.stepAt(s.Begin)
		key := seenStep{s.Incarnation, number}
		if s.Incarnation == self || o.seen[key] || number < oldest || number >= end {
			continue
		}
		o.seen[key] = true
		decoded, err := decode(s.Figures)
		if err != nil {
			o.odd[s.Incarnation] = max(o.odd[s.Incarnation], number)
			continue
		}
		o.steps.add(number, &decoded, false)
		o.newest[s.Incarnation] = max(o.newest[s.Incarnation], number)
	}
}

// forget forgets which steps it has added, once they have left the range.
func (o *others) forget(end int64) {
	oldest := o.oldest(end)
	for key := range o.seen {
		if key.number < oldest {
			delete(o.seen, key)
		}
	}
	for _, numbers := range []map[string]int64{o.newest, o.odd} {
		maps.DeleteFunc(numbers, func(_ string, number int64) bool { return number < oldest })
	}
}

// join adds this node's steps. Joined ends before the first step that a node may still write.
func (o *others) join(deps *JoinerDeps, end int64) Joined {
	joined := Joined{Nodes: []string{deps.Self.Name}}
	if o.failed {
		joined.Missing = []Missing{{Reason: "the database did not give the figures of other nodes"}}
	}
	late := int64(0)
	for _, n := range o.nodes {
		if n.Incarnation == deps.Self.Incarnation || o.failed {
			continue
		}
		behind := end - 1 - o.newest[n.Incarnation]
		if behind > missingSteps && end-o.steps.stepAt(n.Started) > missingSteps+1 {
			joined.Missing = append(joined.Missing, Missing{n.Name, o.why(n.Incarnation)})
			continue
		}
		joined.Nodes = append(joined.Nodes, n.Name)
		if behind <= missingSteps { // else it has just begun
			late = max(late, behind)
		}
	}
	slices.Sort(joined.Nodes)
	slices.SortFunc(joined.Missing,
		func(a, b Missing) int {
			return cmp.Or(strings.Compare(a.Node, b.Node), strings.Compare(a.Reason, b.Reason))
		})
	first := end - late - int64(o.steps.Steps)
	joined.Start = o.steps.begin(first)
	joined.Steps = deps.Recorder.steps(o.steps.Range, first, o.steps.Steps)
	for i, step := range o.steps.steps(first, o.steps.Steps) {
		joined.Steps[i] = joined.Steps[i].plus(&step)
	}
	return joined
}

// why returns why a node is missing.
func (o *others) why(incarnation string) string {
	newest, found := o.newest[incarnation]
	switch {
	case o.odd[incarnation] > newest:
		return "this build cannot read its figures"
	case found:
		return "its last figures are of " + o.steps.begin(newest).String()
	}
	return "it has written no figures; builds before 0.2 write none"
}
