package stats

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock"
)

// table is the tables of steps and sightings in memory.
type table struct {
	mu    sync.Mutex
	steps map[stepKey]clock.NodeStep
	seen  map[string]clock.Instant
	wrote int // sightings that were written
	away  bool
	reads int // pages
	delay time.Duration
}

// stepKey is the primary key of the table.
type stepKey struct {
	length      time.Duration
	begin       clock.Instant
	incarnation string
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
		t.steps[stepKey{s.Length, s.Begin, s.Incarnation}] = s
	}
	return nil
}

func (t *table) Steps(ctx context.Context, q clock.StepsQuery) ([]clock.NodeStep, error) {
	if err := t.enter(ctx); err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reads++
	found := t.find(func(s clock.NodeStep) bool {
		return s.Length == q.Length && s.Begin >= q.From && s.Begin < q.Until
	})
	return found[:min(q.Limit, len(found))], nil
}

func (t *table) DeleteSteps(
	ctx context.Context, length time.Duration, before clock.Instant, limit int,
) (deleted int, err error) {
	if err := t.enter(ctx); err != nil {
		return 0, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.steps, func(key stepKey, _ clock.NodeStep) bool {
		old := key.length == length && key.begin < before && deleted < limit
		if old {
			deleted++
		}
		return old
	})
	return deleted, nil
}

func (t *table) set(change func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change()
}

// find returns the steps that fit, in the order of their begin. The caller holds mu.
func (t *table) find(fits func(clock.NodeStep) bool) (found []clock.NodeStep) {
	for _, s := range t.steps {
		if fits(s) {
			found = append(found, s)
		}
	}
	slices.SortFunc(found, func(a, b clock.NodeStep) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), strings.Compare(a.Incarnation, b.Incarnation))
	})
	return found
}

// count returns the number of steps of a node and a length.
func (t *table) count(incarnation string, length time.Duration) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.find(func(s clock.NodeStep) bool { return s.Incarnation == incarnation && s.Length == length }))
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
	return &nodes{
		t: t, clock: &databaseClock{},
		table: &table{steps: map[stepKey]clock.NodeStep{}, seen: map[string]clock.Instant{}},
	}
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
		w := NewWriter(WriterDeps{
			Recorder: made.Recorder, Steps: n.table, Sightings: n.table, Incarnation: made.Incarnation, Log: log,
		})
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
		sum = sum.plus(&j.Steps[i])
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
		hour, day := n.table.count("A", Hour.Step), n.table.count("A", Day.Step)
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
		if err := n.table.AddSteps(t.Context(), many); err != nil {
			t.Fatal(err)
		}
		n.table.set(func() { n.table.reads = 0 })
		a.joined(t, Hour, 13_300, "a")
		if n.table.reads != 14 {
			t.Errorf("%d pages", n.table.reads)
		}
		time.Sleep(rereadEvery)
		n.table.set(func() { n.table.reads = 0 })
		a.joined(t, Hour, 12_540, "a") // 40 of the 700 steps have left the hour
		if n.table.reads != 13 {
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

func TestStepsOfALateNodeAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		for range 730 {
			a.sets("shop", 1)
			b.sets("shop", 1)
			pass(0)
		}
		b.stop()
		<-b.ended
		for range 1 + missingSteps {
			pass(0)
		}
		for i, step := range a.joined(t, Hour, 2*719, "a b").Steps { // nothing was set in the last step of b
			if want := int64(2); step.Total.Sets != want && i < 719 {
				t.Fatalf("step %d has %d sets, want %d", i, step.Total.Sets, want)
			}
		}
	})
}

func TestLooksShareAResultThatNeverChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		a.sets("shop", 1)
		b.sets("shop", 1)
		pass(time.Minute)
		first, again := a.joined(t, Day, 2, "a b"), a.joined(t, Day, 2, "a b")
		if &first.Steps[0] != &again.Steps[0] {
			t.Error("two looks of one second were joined twice")
		}
		text := fmt.Sprintf("%+v", first.Steps[1439])
		for range 3 {
			a.sets("shop", 5)
			b.sets("bank", 5)
			pass(time.Minute)
			if _, err := a.Last(t.Context(), Day); err != nil {
				t.Fatal(err)
			}
		}
		if now := fmt.Sprintf("%+v", first.Steps[1439]); now != text {
			t.Errorf("the first result was %s, and is %s", text, now)
		}
	})
}

func TestNodeThatWasOddIsMissingForItsLastFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		odd := clock.NodeStep{
			Length: Hour.Step, Begin: Hour.begin(Hour.stepAt(b.clockNow()) - 1), Incarnation: "B", Figures: "{}",
		}
		if err := n.table.AddSteps(t.Context(), []clock.NodeStep{odd}); err != nil {
			t.Fatal(err)
		}
		pass(time.Minute)
		a.joined(t, Hour, 0, "a b")
		last := Hour.begin(Hour.stepAt(b.clockNow())).String()
		b.stop()
		<-b.ended
		pass(time.Minute)
		a.joined(t, Hour, 0, "a", "b: its last figures are of "+last)
	})
}

func TestOldStepsAreDeletedInPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		var old []clock.NodeStep
		for i := range 2*stepsOfDelete + 1 {
			old = append(old, clock.NodeStep{Length: Hour.Step, Begin: clock.Instant(i), Incarnation: "OLD"})
		}
		if err := n.table.AddSteps(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		n.add("a", true)
		for _, left := range []int{stepsOfDelete + 1, 1, 0} {
			pass(0)
			if got := n.table.count("OLD", Hour.Step); got != left {
				t.Errorf("%d old steps are left, want %d", got, left)
			}
		}
	})
}

func TestLooksDoNotWaitForADatabaseThatHasFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a := n.add("a", true)
		pass(0)
		n.table.set(func() { n.table.away, n.table.delay = true, 2*time.Second })
		away := ": the database did not give the figures of other nodes"
		a.joined(t, Hour, 0, "a", away)
		time.Sleep(joinEvery)
		begun := time.Now()
		a.joined(t, Hour, 0, "a", away)
		if waited := time.Since(begun); waited > 0 {
			t.Errorf("a look after a failure took %s", waited)
		}
		n.table.set(func() { n.table.away, n.table.delay = false, 0 })
		time.Sleep(joinAfterFailure - joinEvery)
		a.joined(t, Hour, 0, "a")
	})
}

func TestDayOutlivesAClockThatWasAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNodes(t)
		a, b := n.add("a", true), n.add("b", true)
		b.sets("shop", 1)
		pass(time.Minute)
		a.joined(t, Day, 1, "a b")
		n.clock.set(-2*time.Hour, nil)
		pass(time.Minute)
		a.joined(t, Day, 1, "a b")
		n.clock.set(0, nil)
		pass(2 * time.Minute)
		b.sets("shop", 1)
		pass(time.Minute)
		b.stop()
		<-b.ended
		n.remove("B")
		pass(time.Minute)
		a.joined(t, Day, 2, "a")
	})
}
