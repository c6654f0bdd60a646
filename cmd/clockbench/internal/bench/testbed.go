package bench

import (
	"context"
	"errors"
	"time"
)

// testbed is the environment of one stage: a fresh database, a fresh exchange with a queue, and a fresh service that
// uses them.
type testbed struct {
	cfg     *Config
	db      database
	broker  *broker  // nil: rings go to the receiver or to the stream
	child   *child   // the first node
	nodes   []*child // all started nodes, including ended nodes
	offset  clockOffset
	load    *load    // takes the machine from the others; nil: no load
	proxies *proxies // count the traffic between nodes and servers; nil: nothing is counted

	receiver receiver // takes the rings; nil: they go to the broker or to the stream

	takesMessages bool // the nodes take delayed messages
	applications  int  // number of applications that share the alarms of herds and of constant rates; 0: one

	perAlarm time.Duration // time for each alarm when alarms were last set in bulk
}

// firstNode is the name of the first node of every testbed.
const firstNode = "bench"

// cleanTimeout bounds the cleaning up after a stage or an interrupt.
const cleanTimeout = time.Minute

// makeTestbed makes a testbed with one node. Its rings go to the broker if there is one, else to the stream.
func (r *run) makeTestbed(ctx context.Context) (*testbed, error) {
	return r.makeTestbedOn(ctx, r.cfg.AMQPURL)
}

// makeTestbedOn makes a testbed whose rings go to this broker. If amqpURL is empty, they go to the stream.
func (r *run) makeTestbedOn(ctx context.Context, amqpURL string) (*testbed, error) {
	return r.makeTestbedOf(ctx, &testbed{cfg: &r.cfg}, amqpURL)
}

// makeCountedTestbed makes a testbed whose nodes reach their servers through counting proxies.
func (r *run) makeCountedTestbed(ctx context.Context) (*testbed, error) {
	return r.makeTestbedOf(ctx, &testbed{cfg: &r.cfg, proxies: &proxies{}}, r.cfg.AMQPURL)
}

// makeIntakeTestbed makes a testbed whose nodes take delayed messages.
func (r *run) makeIntakeTestbed(ctx context.Context) (*testbed, error) {
	return r.makeTestbedOf(ctx, &testbed{cfg: &r.cfg, takesMessages: true}, r.cfg.AMQPURL)
}

// overloadApplications is the number of applications of the stage overload. With one application alone, clockd could
// take no other's confirms as a proof against a slow queue.
const overloadApplications = 4

// makeOverloadTestbed makes a testbed with several applications, if there is a broker.
func (r *run) makeOverloadTestbed(ctx context.Context) (*testbed, error) {
	b := &testbed{cfg: &r.cfg}
	if r.cfg.AMQPURL != "" {
		b.applications = overloadApplications
	}
	return r.makeTestbedOf(ctx, b, r.cfg.AMQPURL)
}

// makeSlowedTestbed makes a testbed with several applications whose broker can be slowed down.
func (r *run) makeSlowedTestbed(ctx context.Context) (*testbed, error) {
	slowed := &proxies{slowBroker: new(slowdown)}
	return r.makeTestbedOf(ctx, &testbed{cfg: &r.cfg, proxies: slowed, applications: overloadApplications},
		r.cfg.AMQPURL)
}

// application returns the application of a part of the alarms, by turns.
func (b *testbed) application(part int) string { return applicationOf(part % max(b.applications, 1)) }

func (r *run) makeTestbedOf(ctx context.Context, b *testbed, amqpURL string) (*testbed, error) {
	if err := r.fillTestbed(ctx, b, amqpURL); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

func (r *run) fillTestbed(ctx context.Context, b *testbed, amqpURL string) (err error) {
	name := randomName()
	if b.db, err = newDatabase(ctx, r.cfg.DatabaseURL, name); err != nil {
		return err
	}
	if amqpURL != "" {
		if b.broker, err = newBroker(amqpURL, name, r.cfg.Queue, max(b.applications, 1)); err != nil {
			return err
		}
		if b.takesMessages {
			if err := b.broker.declareDelayed(); err != nil {
				return err
			}
		}
		r.report.Target = b.broker.Engine() + ", " + r.cfg.Queue + " queue"
	}
	if r.report.Database, err = b.db.Engine(ctx); err != nil {
		return err
	}
	if b.offset, err = measureOffset(ctx, b.db.Time); err != nil {
		return err
	}
	if b.proxies != nil {
		if err := b.proxies.connect(ctx, b.db.URL(), r.cfg.AMQPURL); err != nil {
			return err
		}
	}
	if b.receiver != nil {
		if err := applicationSettings(ctx, &r.cfg, b.db.URL(), b.receiver.Settings()); err != nil {
			return err
		}
	}
	b.child, err = b.startNode(ctx, firstNode)
	return err
}

// startNode starts a node on the testbed's database and exchange, and waits until it is ready. No other running node
// may have the name.
func (b *testbed) startNode(ctx context.Context, name string) (*child, error) {
	exchange := ""
	if b.broker != nil {
		exchange = b.broker.exchange
	}
	databaseURL, amqpURL := b.db.URL(), b.cfg.AMQPURL
	if b.proxies != nil {
		databaseURL, amqpURL = b.proxies.databaseURL, b.proxies.amqpURL
	}
	var more []string
	if b.takesMessages {
		more = []string{"CLOCKD_INTAKE_QUEUE=" + b.broker.delayed, "CLOCKD_INTAKE_EXCHANGE=" + exchange,
			"CLOCKD_INTAKE_DEAD_LETTERS=" + b.broker.letters}
	}
	if b.receiver != nil {
		more = b.receiver.Environment()
	}
	c, err := startChild(ctx, b.cfg, name, databaseURL, amqpURL, exchange, more...)
	if err != nil {
		return nil, err
	}
	b.nodes = append(b.nodes, c)
	return c, nil
}

// restart stops the first node and starts it again.
func (b *testbed) restart(ctx context.Context) error {
	if err := b.child.stop(); err != nil {
		return err
	}
	c, err := b.startNode(ctx, firstNode)
	if err == nil {
		b.child = c
	}
	return err
}

// close ends the nodes and removes everything that the testbed made, even if ctx has ended.
func (b *testbed) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	var errs []error
	for _, c := range b.nodes {
		errs = append(errs, c.stop())
	}
	if b.proxies != nil {
		errs = append(errs, b.proxies.close())
	}
	if b.broker != nil {
		errs = append(errs, b.broker.Drop())
	}
	if b.receiver != nil {
		errs = append(errs, b.receiver.Close())
	}
	if b.db != nil {
		errs = append(errs, b.db.Drop(ctx))
	}
	return errors.Join(errs...)
}

// running returns the nodes that the bench has not ended.
func (b *testbed) running() (nodes []*child) {
	for _, c := range b.nodes {
		if !c.gone {
			nodes = append(nodes, c)
		}
	}
	return nodes
}

// consume takes the rings of the service from the receiver, the queue or the stream into the tally.
func (b *testbed) consume(ctx context.Context, t *tally) (*consumer, error) {
	switch {
	case b.receiver != nil:
		return b.receiver.Consume(ctx, b.child.url, t)
	case b.broker != nil:
		return b.broker.consume(ctx, b.broker.queue, t)
	default:
		return subscribe(ctx, b.child.url, t)
	}
}

// now returns the database's clock in epoch milliseconds.
func (b *testbed) now() int64 { return time.Now().Add(b.offset.value()).UnixMilli() }

// since returns the time from an instant by the database's clock to a local time.
func (b *testbed) since(at int64, local time.Time) time.Duration { return b.offset.late(local, at) }

// ahead returns how far ahead n alarms must be due, so that all are set before. It estimates this from the last bulk
// sets.
func (b *testbed) ahead(n int) time.Duration { return b.cfg.ahead + time.Duration(n)*b.perAlarm*3/2 }

// aheadTries is how often a series is tried whose first alarms were due before all alarms were set. Each try is further
// ahead.
const aheadTries = 4

var errSlow = errors.New("alarms cannot be set fast enough: some were due before all were set")

// inTime calls do, which must set n alarms before they are due. If do returns errSlow, inTime calls it again with twice
// the time.
func (r *run) inTime(b *testbed, n int, do func(try int, ahead time.Duration) error) (err error) {
	ahead := b.ahead(n)
	for try := range aheadTries {
		if err = do(try, ahead); !errors.Is(err, errSlow) {
			return err
		}
		ahead *= 2
		r.progress.say("%s; again, %s ahead", errSlow, ahead.Round(time.Second))
	}
	return err
}
