package stats

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/clockd/clockd/clock"
)

const (
	// joinEvery is the least time between two reads of the database.
	joinEvery = time.Second
	// joinLimit bounds one read.
	joinLimit = 3 * time.Second
	// lateSteps are the steps that are read again, because a node may have written them late.
	lateSteps = 12
	// rereadEvery is the time after which all steps are read again.
	rereadEvery = 5 * time.Minute
	// missingSteps is the most of the latest steps that a node may not have written yet; then it is missing.
	missingSteps = 2
	// stepsOfRead is the most steps of one page.
	stepsOfRead = 5000
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

// Joiner adds the figures of all nodes, of those too that have ended. All methods are safe for concurrent use.
type Joiner struct {
	deps   JoinerDeps
	flight singleflight.Group

	mu      sync.Mutex
	others  map[Range]*others
	failing bool // the last read failed
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
func (j *Joiner) Last(ctx context.Context, of Range) (Joined, error) {
	_, end := j.deps.Recorder.known(of)
	if end == 0 {
		return Joined{}, nil
	}
	done := j.flight.DoChan(of.Name, func() (any, error) {
		j.refresh(context.WithoutCancel(ctx), of, end)
		return nil, nil
	})
	select {
	case <-done:
	case <-ctx.Done():
		return Joined{}, ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.others[of].join(&j.deps, end), nil
}

// refresh reads the living nodes and the steps that others have written since the last read.
func (j *Joiner) refresh(ctx context.Context, of Range, end int64) {
	ctx, cancel := context.WithTimeout(ctx, joinLimit)
	defer cancel()
	j.mu.Lock()
	from, due := j.others[of].from(end, time.Now())
	j.mu.Unlock()
	if !due {
		return
	}
	begun := time.Now()
	nodes, err := j.deps.Nodes(ctx)
	var steps []clock.NodeStep
	if err == nil {
		steps, err = j.read(ctx, of, from)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err != nil && !j.failing {
		j.deps.Log.Warn("could not read the figures of other nodes", "err", err)
	}
	j.failing = err != nil
	o := j.others[of]
	if o.read, o.failed = begun, err != nil; err != nil {
		return
	}
	o.nodes, o.end = nodes, end
	if o.add(steps, j.deps.Self.Incarnation, end); from <= end-int64(of.Steps) {
		o.whole = begun
	}
}

// read reads all steps from a step on, page by page.
func (j *Joiner) read(ctx context.Context, of Range, from int64) (all []clock.NodeStep, err error) {
	for begin := of.begin(max(0, from)); ; {
		page, err := j.deps.Steps.Steps(ctx, of.Step, begin, stepsOfRead)
		if err != nil {
			return nil, err
		}
		all = append(all, page...)
		if len(page) < stepsOfRead {
			return all, nil
		}
		begin = max(page[len(page)-1].Begin, begin+1) // the steps of this begin come again; they are added once
	}
}

// others are the steps of one range of the other nodes, as far as they were read.
type others struct {
	steps  *series
	seen   map[seenStep]bool // steps in the range that were read
	newest map[string]int64  // by incarnation: the newest step that was read
	odd    map[string]bool   // by incarnation: a step in the range could not be decoded
	nodes  []Node            // living nodes

	read   time.Time // begin of the last read; zero: none
	failed bool      // the last read failed
	whole  time.Time // begin of the last read of the whole range
	end    int64     // the open step of the last read that did not fail
}

// seenStep is a step of a node.
type seenStep struct {
	incarnation string
	number      int64
}

func newOthers(of Range) *others {
	return &others{steps: newSeries(of), seen: map[seenStep]bool{}, newest: map[string]int64{}, odd: map[string]bool{}}
}

// from returns the first step to read, and whether it is time to read. It forgets all steps if the clock was set back
// far.
func (o *others) from(end int64, now time.Time) (from int64, due bool) {
	if end < o.end-int64(o.steps.Steps) {
		*o = *newOthers(o.steps.Range)
	}
	from = end - int64(o.steps.Steps) - missingSteps
	if now.Sub(o.whole) < rereadEvery {
		from = max(from, o.end-lateSteps)
	}
	return from, now.Sub(o.read) >= joinEvery
}

// add adds new steps. It forgets steps that have left the range.
func (o *others) add(steps []clock.NodeStep, self string, end int64) {
	oldest := end - int64(o.steps.Steps) - missingSteps
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
			o.odd[s.Incarnation] = true
			continue
		}
		if at := o.steps.at(number); at != nil {
			at.add(&decoded)
		}
		o.newest[s.Incarnation] = max(o.newest[s.Incarnation], number)
	}
	for key := range o.seen {
		if key.number < oldest {
			delete(o.seen, key)
		}
	}
	for incarnation, number := range o.newest {
		if number < oldest {
			delete(o.newest, incarnation)
		}
	}
	for incarnation := range o.odd {
		if !slices.ContainsFunc(o.nodes, func(n Node) bool { return n.Incarnation == incarnation }) {
			delete(o.odd, incarnation)
		}
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
	for i, step := range o.steps.copies(first, o.steps.Steps) {
		joined.Steps[i].add(&step)
	}
	return joined
}

// why returns why a node is missing.
func (o *others) why(incarnation string) string {
	newest, found := o.newest[incarnation]
	switch {
	case o.odd[incarnation]:
		return "this build cannot read its figures"
	case found:
		return "its last figures are of " + o.steps.begin(newest).String()
	}
	return "it has written no figures; builds before 0.2 write none"
}
