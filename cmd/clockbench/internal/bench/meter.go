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

// column is a counted quantity.
type column int

// The counted quantities, in the order of the table. The table does not show the columns after shownColumns; the JSON
// does.
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

// columnNames are the names of the columns in the JSON.
var columnNames = [columns]string{
	"statements", "round_trips", "transactions", "fsyncs", "log_bytes", "frames_out", "frames_in", "broker_bytes",
	"allocations",
	"allocated_bytes", "processor_us", "methods_out", "headers_out", "bodies_out", "methods_in",
}

// columnText returns the name of a column for the table.
func columnText(c column) string { return strings.ReplaceAll(columnNames[c], "_", " ") }

// reading holds the counters at one time, and the time of each. A counter that does not exist here is NaN.
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

// meter counts the resources that a testbed's nodes use. It subtracts the use of idle nodes and the cost of reading the
// counters.
type meter struct {
	testbed     *testbed
	syncs       bool             // whether syncs are counted
	syncDelay   time.Duration    // time until the database reports a sync
	readingCost [columns]float64 // cost of one reading
	idle        [columns]float64 // use of idle nodes per second
}

// idleFor is how long the meter watches idle nodes.
const idleFor = 10 * time.Second

// newMeter returns a meter. It first watches the nodes, which must be idle. syncs says whether to count syncs, for
// which some databases need a long wait.
func (r *run) newMeter(ctx context.Context, b *testbed, syncs bool) (*meter, error) {
	m := &meter{testbed: b, syncs: syncs}
	watch := idleFor
	if r.cfg.quick {
		watch = time.Second
	} else if syncs {
		m.syncDelay = b.db.SyncsLate()
	}
	r.progress.say("count the work of %d idle nodes for %s", len(b.nodes), watch)
	if err := sleep(ctx, m.syncDelay); err != nil {
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
	for _, c := range []column{colAllocations, colAllocated} { // not processor time, whose ticks are longer than a reading
		m.readingCost[c] = begin.count[c] - first.count[c]
	}
	if err := sleep(ctx, watch); err != nil {
		return nil, err
	}
	end, err := m.read(ctx, m.syncDelay)
	if err != nil {
		return nil, err
	}
	for c, used := range m.usedBetween(begin, end) {
		m.idle[c] = used / end.at[c].Sub(begin.at[c]).Seconds()
	}
	return m, nil
}

// usedBetween returns the use between two readings, without the use of idle nodes and the cost of a reading.
func (m *meter) usedBetween(begin, end *reading) (used [columns]float64) {
	for c := range used {
		rest := m.readingCost[c] + m.idle[c]*end.at[c].Sub(begin.at[c]).Seconds()
		used[c] = end.count[c] - begin.count[c] - rest
		if used[c] < 0 {
			used[c] = 0 // the idle part was a little smaller this time
		}
	}
	return used
}

// settle waits until the database reports all syncs so far.
func (m *meter) settle(ctx context.Context) error { return sleep(ctx, m.syncDelay) }

// measure returns the cost of one alarm, from the alarms that do handles. Earlier work must have settled before.
func (m *meter) measure(ctx context.Context, what string, alarms int, do func() error) (Cost, error) {
	begin, err := m.read(ctx, 0)
	if err != nil {
		return Cost{}, err
	}
	if err := do(); err != nil {
		return Cost{}, fmt.Errorf("%s: %w", what, err)
	}
	end, err := m.read(ctx, m.syncDelay)
	if err != nil {
		return Cost{}, err
	}
	return costOf(what, alarms, m.usedBetween(begin, end)), nil
}

// read reads all counters. It reads the syncs last, after waiting for late.
func (m *meter) read(ctx context.Context, late time.Duration) (*reading, error) {
	r := newReading()
	if err := m.readNodes(ctx, r); err != nil {
		return nil, err
	}
	if w := m.testbed.proxies.database; w != nil {
		r.note(colStatements, float64(w.counts.statements.Load()))
		r.note(colRoundTrips, float64(w.counts.roundTrips.Load()))
		r.note(colTransactions, float64(w.counts.transactions.Load()))
	}
	if w := m.testbed.proxies.broker; w != nil {
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
	syncs, err := m.testbed.db.Syncs(ctx)
	if err == nil && syncs >= 0 {
		r.note(colSyncs, float64(syncs))
	}
	return r, err
}

// readLog notes the bytes of the database's log. If the database has no log, it notes the bytes that the nodes have
// written to disk.
func (m *meter) readLog(ctx context.Context, r *reading) error {
	logged, err := m.testbed.db.Logged(ctx)
	if err != nil {
		return fmt.Errorf("read the size of the database's log: %w", err)
	}
	if logged < 0 {
		logged = 0
		for _, c := range m.testbed.running() {
			logged += diskBytes(c.cmd.Process.Pid)
		}
	}
	r.note(colLogBytes, float64(logged))
	return nil
}

func (r *reading) noteFrames(counts *proxyCounts) {
	sum := func(p *traffic) (n float64) {
		for kind := range p.frames {
			n += float64(p.frames[kind].Load())
		}
		return n
	}
	toServer, fromServer := &counts.toServer, &counts.fromServer
	r.note(colFramesOut, sum(toServer))
	r.note(colFramesIn, sum(fromServer))
	r.note(colBrokerBytes, float64(toServer.bytes.Load()+fromServer.bytes.Load()))
	r.note(colMethodsOut, float64(toServer.frames[amqpMethod].Load()))
	r.note(colHeadersOut, float64(toServer.frames[amqpHeader].Load()))
	r.note(colBodiesOut, float64(toServer.frames[amqpBody].Load()))
	r.note(colMethodsIn, float64(fromServer.frames[amqpMethod].Load()))
}

// readNodes notes the nodes' own metrics, and the processor time that the system reports for them.
func (m *meter) readNodes(ctx context.Context, r *reading) error {
	var allocations, allocated, processor float64
	for _, c := range m.testbed.running() {
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

// metrics returns the values of metrics without labels, in the order of the names.
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
			found[name], _ = strconv.ParseFloat(value, 64) // an unreadable line has none of the names
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

// Cost is the use of all counted resources for one alarm.
type Cost struct {
	What   string             `json:"what"`
	Alarms int                `json:"alarms"` // number of alarms that were counted
	Each   map[string]float64 `json:"each"`   // use for one alarm, by column name
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

// value returns the use in one column. counted is false if the column was not counted.
func (c Cost) value(col column) (n float64, counted bool) {
	n, counted = c.Each[columnNames[col]]
	return n, counted
}

// text formats the use in one column; "" if the column was not counted.
func (c Cost) text(col column) string {
	n, counted := c.value(col)
	if !counted {
		return ""
	}
	return count(n)
}
