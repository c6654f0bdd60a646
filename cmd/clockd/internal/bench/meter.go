package bench

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// column is one thing that is counted.
type column int

// What is counted, in the order of the table. Of what comes after shownColumns only the JSON tells.
const (
	colStatements column = iota
	colRoundTrips
	colTransactions
	colSyncs
	colLogBytes
	colFramesOut
	colFramesIn
	colBrokerBytes
	colAllocations
	colAllocated
	colProcessor // microseconds
	shownColumns

	colMethodsOut column = iota - 1
	colHeadersOut
	colBodiesOut
	colMethodsIn
	columns
)

// columnNames are as the JSON has them.
var columnNames = [columns]string{
	"statements", "round_trips", "transactions", "fsyncs", "log_bytes", "frames_out", "frames_in", "broker_bytes", "allocations",
	"allocated_bytes", "processor_us", "methods_out", "headers_out", "bodies_out", "methods_in",
}

// columnText is the name as people read it.
func columnText(c column) string { return strings.ReplaceAll(columnNames[c], "_", " ") }

// reading is what the meter showed, and when; NaN: it is not counted here.
type reading struct {
	count [columns]float64
	at    [columns]time.Time
}

func newReading() *reading {
	r := &reading{}
	for c := range r.count {
		r.count[c] = math.NaN()
	}
	return r
}

func (r *reading) note(c column, count float64) { r.count[c], r.at[c] = count, time.Now() }

// meter counts what a bed's nodes use, of everything. What they use when they have nothing to do, and by being asked, is
// subtracted.
type meter struct {
	bed   *bed
	syncs bool             // count them
	late  time.Duration    // until the database tells of one
	asked [columns]float64 // what a reading costs
	idle  [columns]float64 // a second
}

// idleFor is how long nodes are watched that have nothing to do.
const idleFor = 10 * time.Second

// newMeter watches the nodes first, which must have nothing to do. Syncs are counted only if that is wanted: a database
// may take its time to tell.
func (r *run) newMeter(ctx context.Context, b *bed, syncs bool) (*meter, error) {
	m := &meter{bed: b, syncs: syncs}
	watch := idleFor
	if r.cfg.quick {
		watch = time.Second
	} else if syncs {
		m.late = b.db.SyncsLate()
	}
	r.progress.say("count what %d idle nodes do for %s", len(b.nodes), watch)
	if err := sleep(ctx, m.late); err != nil {
		return nil, err
	}
	first, err := m.read(ctx, 0)
	if err != nil {
		return nil, err
	}
	begin, err := m.read(ctx, 0)
	if err != nil {
		return nil, err
	}
	for _, c := range []column{colAllocations, colAllocated} { // processor time is told in ticks that are longer than this
		m.asked[c] = begin.count[c] - first.count[c]
	}
	if err := sleep(ctx, watch); err != nil {
		return nil, err
	}
	end, err := m.read(ctx, m.late)
	if err != nil {
		return nil, err
	}
	for c, used := range m.between(begin, end) {
		m.idle[c] = used / end.at[c].Sub(begin.at[c]).Seconds()
	}
	return m, nil
}

// between returns what was used from one reading to another, beyond what idle nodes use.
func (m *meter) between(begin, end *reading) (used [columns]float64) {
	for c := range used {
		rest := m.asked[c] + m.idle[c]*end.at[c].Sub(begin.at[c]).Seconds()
		used[c] = end.count[c] - begin.count[c] - rest
		if used[c] < 0 {
			used[c] = 0 // idle nodes did a little less meanwhile
		}
	}
	return used
}

// settle waits until the database tells of all syncs so far.
func (m *meter) settle(ctx context.Context) error { return sleep(ctx, m.late) }

// measure counts what an alarm takes of some that do handles. What was done before must have settled.
func (m *meter) measure(ctx context.Context, what string, alarms int, do func() error) (Cost, error) {
	begin, err := m.read(ctx, 0)
	if err != nil {
		return Cost{}, err
	}
	if err := do(); err != nil {
		return Cost{}, fmt.Errorf("%s: %w", what, err)
	}
	end, err := m.read(ctx, m.late)
	if err != nil {
		return Cost{}, err
	}
	return costOf(what, alarms, m.between(begin, end)), nil
}

// read reads all; syncs last, after as long as late.
func (m *meter) read(ctx context.Context, late time.Duration) (*reading, error) {
	r := newReading()
	if err := m.readNodes(ctx, r); err != nil {
		return nil, err
	}
	if w := m.bed.wires.database; w != nil {
		r.note(colStatements, float64(w.counts.statements.Load()))
		r.note(colRoundTrips, float64(w.counts.roundTrips.Load()))
		r.note(colTransactions, float64(w.counts.transactions.Load()))
	}
	if w := m.bed.wires.broker; w != nil {
		r.noteFrames(&w.counts)
	}
	if err := m.readLog(ctx, r); err != nil {
		return nil, err
	}
	if !m.syncs {
		return r, nil
	}
	if err := sleep(ctx, late); err != nil {
		return nil, err
	}
	syncs, err := m.bed.db.Syncs(ctx)
	if err == nil && syncs >= 0 {
		r.note(colSyncs, float64(syncs))
	}
	return r, err
}

// readLog notes what the database has logged; where it has no log of its own, what the nodes have written to their disk.
func (m *meter) readLog(ctx context.Context, r *reading) error {
	logged, err := m.bed.db.Logged(ctx)
	if err != nil {
		return fmt.Errorf("read the size of the database's log: %w", err)
	}
	if logged < 0 {
		logged = 0
		for _, c := range m.bed.running() {
			logged += diskBytes(c.cmd.Process.Pid)
		}
	}
	r.note(colLogBytes, float64(logged))
	return nil
}

func (r *reading) noteFrames(counts *wireCounts) {
	sum := func(p *passed) (n float64) {
		for kind := range p.frames {
			n += float64(p.frames[kind].Load())
		}
		return n
	}
	out, in := &counts.toServer, &counts.fromServer
	r.note(colFramesOut, sum(out))
	r.note(colFramesIn, sum(in))
	r.note(colBrokerBytes, float64(out.bytes.Load()+in.bytes.Load()))
	r.note(colMethodsOut, float64(out.frames[amqpMethod].Load()))
	r.note(colHeadersOut, float64(out.frames[amqpHeader].Load()))
	r.note(colBodiesOut, float64(out.frames[amqpBody].Load()))
	r.note(colMethodsIn, float64(in.frames[amqpMethod].Load()))
}

// readNodes notes what the nodes say of themselves, and the system of them.
func (m *meter) readNodes(ctx context.Context, r *reading) error {
	var allocations, allocated, processor float64
	for _, c := range m.bed.running() {
		found, err := c.metrics(ctx, "go_memstats_mallocs_total", "go_memstats_alloc_bytes_total")
		if err != nil {
			return fmt.Errorf("read the metrics of %s: %w", c.node, err)
		}
		allocations, allocated = allocations+found[0], allocated+found[1]
		processor += float64(c.cpu().Microseconds())
	}
	r.note(colAllocations, allocations)
	r.note(colAllocated, allocated)
	r.note(colProcessor, processor)
	return nil
}

// metrics returns metrics without labels of the process, by their names.
func (c *child) metrics(ctx context.Context, names ...string) ([]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = res.Body.Close() }()
	found := map[string]float64{}
	lines := bufio.NewScanner(res.Body)
	for lines.Scan() {
		if name, value, _ := strings.Cut(lines.Text(), " "); !strings.HasPrefix(name, "#") {
			found[name], _ = strconv.ParseFloat(value, 64) // another line than ours, if at all
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	values := make([]float64, len(names))
	for i, name := range names {
		value, ok := found[name]
		if !ok {
			return nil, fmt.Errorf("there is no %s", name)
		}
		values[i] = value
	}
	return values, nil
}

// Cost is what one alarm takes, of everything that could be counted.
type Cost struct {
	What   string             `json:"what"`
	Alarms int                `json:"alarms"` // that it was counted over
	Each   map[string]float64 `json:"each"`   // by column
}

func costOf(what string, alarms int, used [columns]float64) Cost {
	c := Cost{What: what, Alarms: alarms, Each: map[string]float64{}}
	for i, n := range used {
		if !math.IsNaN(n) {
			c.Each[columnNames[i]] = n / float64(alarms)
		}
	}
	return c
}

// of returns what was counted in a column.
func (c Cost) of(col column) (n float64, counted bool) {
	n, counted = c.Each[columnNames[col]]
	return n, counted
}

// text writes what was counted in a column; empty where nothing was.
func (c Cost) text(col column) string {
	n, counted := c.of(col)
	if !counted {
		return ""
	}
	return count(n)
}
