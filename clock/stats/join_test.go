package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// table is the table of steps in memory.
type table struct {
	mu    sync.Mutex
	steps []clock.NodeStep
	away  bool
	reads int // pages
	delay time.Duration
}

func (t *table) enter(ctx context.Context) error {
	t.mu.Lock()
	away, delay := t.away, t.delay
	t.mu.Unlock()
	time.Sleep(delay)
	if away {
		return errors.New("the database is away")
	}
	return ctx.Err()
}

func (t *table) AddSteps(ctx context.Context, steps []clock.NodeStep) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range steps {
		if !slices.ContainsFunc(t.steps, func(o clock.NodeStep) bool {
			return o.Length == s.Length && o.Begin == s.Begin && o.Incarnation == s.Incarnation
		}) {
			t.steps = append(t.steps, s)
		}
	}
	slices.SortFunc(t.steps, func(a, b clock.NodeStep) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), strings.Compare(a.Incarnation, b.Incarnation))
	})
	return nil
}

func (t *table) Steps(
	ctx context.Context, length time.Duration, from clock.Instant, limit int,
) ([]clock.NodeStep, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	var found []clock.NodeStep
	for _, s := range t.steps {
		if s.Length == length && s.Begin >= from && len(found) < limit {
			found = append(found, s)
		}
	}
	return found, nil
}

func (t *table) DeleteSteps(ctx context.Context, length time.Duration, before clock.Instant) error {
	if err := t.enter(ctx); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.steps = slices.DeleteFunc(t.steps, func(s clock.NodeStep) bool { return s.Length == length && s.Begin < before })
	return nil
}

func (t *table) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// of returns the steps of a node and a length.
func (t *table) of(incarnation string, length time.Duration) (found []clock.NodeStep) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.steps {
		if s.Incarnation == incarnation && s.Length == length {
			found = append(found, s)
		}
	}
	return found
}

// nodes are nodes that share a table.
type nodes struct {
	t     *testing.T
	table *table
	clock *databaseClock

	mu     sync.Mutex
	living []Node
}

type node struct {
	Node
	*Recorder
	*Joiner
	stop  context.CancelFunc
	ended <-chan struct{} // its writer has ended
}

// newNodes returns nodes in a synctest bubble, in the middle of a step.
func newNodes(t *testing.T) *nodes {
	time.Sleep(time.Until(time.Now().Truncate(time.Hour).Add(time.Hour + 2*time.Second)))
	return &nodes{t: t, table: &table{}, clock: &databaseClock{}}
}

func (n *nodes) list(context.Context) ([]Node, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.living), nil
}

func (n *nodes) remove(incarnation string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.living = slices.DeleteFunc(n.living, func(o Node) bool { return o.Incarnation == incarnation })
}

// add starts a node. Without a writer it is of an older build.
func (n *nodes) add(name string, writes bool) *node {
	now := clock.Instant(time.Now().UnixMilli())
	made := &node{Node: Node{Name: name, Incarnation: strings.ToUpper(name), Started: now}, Recorder: run(n.t, n.clock)}
	log := slog.New(slog.DiscardHandler)
	made.Joiner = NewJoiner(JoinerDeps{
		Recorder: made.Recorder, Steps: n.table, Self: made.Node, Nodes: n.list, Log: log,
	})
	ctx, stop := context.WithCancel(n.t.Context())
	if made.stop = stop; writes {
		w := NewWriter(WriterDeps{Recorder: made.Recorder, Steps: n.table, Incarnation: made.Incarnation, Log: log})
		made.ended = goRun(ctx, n.t, w.Run)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.living = append(n.living, made.Node)
	return made
}

// sets counts sets of an application.
func (n *node) sets(application string, count int) {
	for range count {
		n.Op(set(application), clock.Create)
	}
}

// joined demands the sum of all steps, and the nodes with and without figures.
func (n *node) joined(t *testing.T, of Range, sets int64, names string, missing ...string) Joined {
	t.Helper()
	j, err := n.Last(t.Context(), of)
	if err != nil {
		t.Fatal(err)
	}
	var sum Step
	for i := range j.Steps {
		sum.add(&j.Steps[i])
	}
	var why []string
	for _, m := range j.Missing {
		why = append(why, m.Node+": "+m.Reason)
	}
	if sum.Total.Sets != sets || strings.Join(j.Nodes, " ") != names || !slices.Equal(why, missing) ||
		len(j.Steps) != of.Steps {
		t.Errorf("%s has %d sets of %v in %d steps, without %q; want %d of %s, without %q", n.Name, sum.Total.Sets,
			j.Nodes, len(j.Steps), why, sets, names, missing)
	}
	return j
}

// pass lets time pass, to 100 ms after the end of a step.
func pass(d time.Duration) {
	time.Sleep(d)
	time.Sleep(time.Until(time.Now().Truncate(Hour.Step).Add(Hour.Step + 100*time.Millisecond)))
}

func TestEachNodeHasTheFiguresOfAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		a.sets("shop", 3)
		b.sets("shop", 4)
		b.sets("bank", 1)
		pass(0)
		for _, node := range []*node{a, b} {
			j := node.joined(t, Hour, 8, "a b")
			if last := j.Steps[len(j.Steps)-1]; last.Applications["shop"].Sets != 7 ||
				last.Applications["bank"].Sets != 1 {
				t.Errorf("%s: the last step has %+v", node.Name, last)
			}
			node.joined(t, Day, 0, "a b") // the minute has not ended
		}
		pass(time.Minute)
		a.joined(t, Day, 8, "a b")
		b.joined(t, Day, 8, "a b")
		pass(time.Hour)
		a.joined(t, Hour, 0, "a b")
		b.joined(t, Day, 8, "a b")
		pass(24 * time.Hour)
		b.joined(t, Day, 0, "a b")
		hour, day := len(n.table.of("A", Hour.Step)), len(n.table.of("A", Day.Step))
		if hour < 720 || hour > 750 || day < 1440 || day > 1470 {
			t.Errorf("the table has %d steps of 5 s and %d minutes of a node", hour, day)
		}
	})
}

func TestFiguresOutliveTheirNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		pass(10 * time.Second)
		b.sets("shop", 5)
		b.stop() // in the middle of a step
		<-b.ended
		n.remove("B")
		pass(time.Minute)
		a.joined(t, Hour, 5, "a")
		a.joined(t, Day, 5, "a")
		c := n.add("c", true)
		pass(0)
		c.joined(t, Hour, 5, "a c")
		c.joined(t, Day, 5, "a c")
	})
}

func TestNodeThatStopsAtOnceLeavesItsFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		b.sets("shop", 5)
		b.stop() // before its first step has ended
		<-b.ended
		n.remove("B")
		pass(time.Minute)
		a.joined(t, Hour, 5, "a")
		a.joined(t, Day, 5, "a")
	})
}

func TestMissingNodesAreNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		n.add("old", false)
		n.living = append(n.living, Node{Name: "odd", Incarnation: "ODD", Started: 1})
		pass(0)
		none := "it has written no figures; builds before 0.2 write none"
		a.joined(t, Hour, 0, "a b old", "odd: "+none) // the old node may have begun just now
		pass(20 * time.Second)
		now := clock.Instant(time.Now().UnixMilli())
		if err := n.table.AddSteps(t.Context(), []clock.NodeStep{
			{Length: Hour.Step, Begin: Hour.begin(Hour.stepAt(now) - 1), Incarnation: "ODD", Figures: `{"version":9}`},
		}); err != nil {
			t.Fatal(err)
		}
		pass(0)
		a.joined(t, Hour, 0, "a b", "odd: this build cannot read its figures", "old: "+none)
		last := b.clockNow()
		b.stop()
		<-b.ended
		pass(5 * time.Second)
		j := a.joined(t, Hour, 0, "a b", "odd: this build cannot read its figures", "old: "+none)
		if j.Start != Hour.begin(Hour.stepAt(b.clockNow())-721) {
			t.Errorf("a node is a step behind, and the steps begin at %s", j.Start)
		}
		pass(30 * time.Second)
		a.joined(t, Hour, 0, "a", "b: its last figures are of "+Hour.begin(Hour.stepAt(last)).String(),
			"odd: this build cannot read its figures", "old: "+none)
	})
}

func (n *node) clockNow() clock.Instant { return clock.Instant(time.Now().UnixMilli()) }

func TestWithoutTheDatabaseEachNodeHasItsOwnFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		a.sets("shop", 1)
		b.sets("shop", 1)
		pass(0)
		a.joined(t, Hour, 2, "a b")
		n.table.set(func() { n.table.away = true })
		for range 200 { // more steps than one write takes
			a.sets("shop", 1)
			b.sets("shop", 2)
			pass(0)
		}
		a.joined(t, Hour, 202, "a", ": the database did not give the figures of other nodes")
		n.table.set(func() { n.table.away = false })
		pass(0)
		a.joined(t, Hour, 602, "a b")
		b.joined(t, Hour, 602, "a b")
	})
}

func TestManyLooksShareOneRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		pass(0)
		n.table.set(func() { n.table.delay, n.table.reads = 500*time.Millisecond, 0 })
		var looks sync.WaitGroup
		for range 50 {
			looks.Go(func() { a.joined(t, Hour, 0, "a") })
		}
		looks.Wait()
		a.joined(t, Hour, 0, "a")
		if n.table.reads != 1 {
			t.Errorf("%d reads", n.table.reads)
		}
		time.Sleep(joinEvery)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := a.Last(ctx, Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("a look that ends early: %v", err)
		}
		time.Sleep(joinEvery)
	})
}

func TestStepsAreReadPageByPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		pass(time.Minute)
		now := Hour.stepAt(a.clockNow())
		var many []clock.NodeStep
		for i := range 19 { // so that a page ends within a step
			for step := range int64(700) {
				many = append(many, clock.NodeStep{Length: Hour.Step, Begin: Hour.begin(now - 1 - step),
					Incarnation: fmt.Sprint("ended-", i), Figures: `{"version":1,"sets":1}`})
			}
		}
		n.table.set(func() { n.table.steps, n.table.reads = many, 0 })
		slices.SortFunc(many, func(a, b clock.NodeStep) int { return cmp.Compare(a.Begin, b.Begin) })
		a.joined(t, Hour, 13_300, "a")
		if n.table.reads != 3 {
			t.Errorf("%d pages", n.table.reads)
		}
		time.Sleep(rereadEvery)
		n.table.set(func() { n.table.reads = 0 })
		a.joined(t, Hour, 12_540, "a") // 40 of the 700 steps have left the hour
		if n.table.reads != 3 {
			t.Errorf("%d pages after a long time", n.table.reads)
		}
	})
}

func TestClockSetBackFarBeginsTheFiguresAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		b.sets("shop", 1)
		pass(time.Minute)
		a.joined(t, Hour, 1, "a b")
		n.clock.set(3*time.Hour, nil)
		pass(10 * time.Second)
		b.sets("shop", 5)
		pass(10 * time.Second)
		a.joined(t, Hour, 5, "a b")
		b.joined(t, Hour, 5, "a b")
	})
}

func TestUnknownClockHasNoFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		n.clock.set(0, errors.New("unknown"))
		a := n.add("a", true)
		if j, err := a.Last(t.Context(), Hour); err != nil || !reflect.DeepEqual(j, Joined{}) {
			t.Errorf("%+v, %v", j, err)
		}
		a.stop()
		<-a.ended
		if len(n.table.steps) > 0 {
			t.Errorf("steps of an unknown time: %+v", n.table.steps)
		}
	})
}
