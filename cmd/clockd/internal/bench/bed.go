package bench

import (
	"context"
	"errors"
	"time"
)

// bed is where one stage is measured: a fresh database, a fresh exchange with a queue, and a fresh service on them.
type bed struct {
	cfg    *Config
	db     database
	broker *broker  // nil: rings go to the stream
	child  *child   // the first node
	nodes  []*child // all that were started, also those that were ended since
	offset clockOffset
	wires  *wires // count what the nodes and their servers say; nil: nobody does

	perAlarm time.Duration // that setting in bulk took last
}

// firstNode is the name of the node that every bed begins with.
const firstNode = "bench"

// cleanTimeout bounds what is done after the stage, or after an interrupt.
const cleanTimeout = time.Minute

// makeBed makes a bed with one node, whose rings go to the broker where there is one.
func (r *run) makeBed(ctx context.Context) (*bed, error) { return r.makeBedOn(ctx, r.cfg.AMQPURL) }

// makeBedOn makes one on that broker; empty: on the stream.
func (r *run) makeBedOn(ctx context.Context, amqpURL string) (*bed, error) {
	return r.makeBedOf(ctx, &bed{cfg: &r.cfg}, amqpURL)
}

// makeCountedBed makes one whose nodes reach their servers through wires.
func (r *run) makeCountedBed(ctx context.Context) (*bed, error) {
	return r.makeBedOf(ctx, &bed{cfg: &r.cfg, wires: &wires{}}, r.cfg.AMQPURL)
}

func (r *run) makeBedOf(ctx context.Context, b *bed, amqpURL string) (*bed, error) {
	if err := r.fillBed(ctx, b, amqpURL); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

func (r *run) fillBed(ctx context.Context, b *bed, amqpURL string) (err error) {
	name := randomName()
	if b.db, err = newDatabase(ctx, r.cfg.DatabaseURL, name); err != nil {
		return err
	}
	if amqpURL != "" {
		if b.broker, err = newBroker(amqpURL, name, r.cfg.Queue); err != nil {
			return err
		}
		r.report.Target = b.broker.Engine() + ", " + r.cfg.Queue + " queue"
	}
	if r.report.Database, err = b.db.Engine(ctx); err != nil {
		return err
	}
	if b.offset, err = measureOffset(ctx, b.db.Time); err != nil {
		return err
	}
	if b.wires != nil {
		if err := b.wires.connect(ctx, b.db.URL(), r.cfg.AMQPURL); err != nil {
			return err
		}
	}
	b.child, err = b.startNode(ctx, firstNode)
	return err
}

// startNode starts a node on the bed's database and exchange, under a name that no other one that runs there has, and waits until it is
// ready.
func (b *bed) startNode(ctx context.Context, name string) (*child, error) {
	exchange := ""
	if b.broker != nil {
		exchange = b.broker.exchange
	}
	databaseURL, amqpURL := b.db.URL(), b.cfg.AMQPURL
	if b.wires != nil {
		databaseURL, amqpURL = b.wires.databaseURL, b.wires.amqpURL
	}
	c, err := startChild(ctx, b.cfg, name, databaseURL, amqpURL, exchange)
	if err != nil {
		return nil, err
	}
	b.nodes = append(b.nodes, c)
	return c, nil
}

// restart stops the first node and starts it again.
func (b *bed) restart(ctx context.Context) error {
	if err := b.child.stop(); err != nil {
		return err
	}
	c, err := b.startNode(ctx, firstNode)
	if err == nil {
		b.child = c
	}
	return err
}

// close ends the service and removes what was made, whatever became of ctx.
func (b *bed) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	var errs []error
	for _, c := range b.nodes {
		errs = append(errs, c.stop())
	}
	if b.wires != nil {
		errs = append(errs, b.wires.close())
	}
	if b.broker != nil {
		errs = append(errs, b.broker.Drop())
	}
	if b.db != nil {
		errs = append(errs, b.db.Drop(ctx))
	}
	return errors.Join(errs...)
}

// running returns the nodes that were not ended.
func (b *bed) running() (nodes []*child) {
	for _, c := range b.nodes {
		if !c.gone {
			nodes = append(nodes, c)
		}
	}
	return nodes
}

// consume takes the rings of the service off their target.
func (b *bed) consume(ctx context.Context, t *tally) (*consumer, error) {
	if b.broker == nil {
		return subscribe(ctx, b.child.url, t)
	}
	return b.broker.consume(ctx, b.broker.queue, t)
}

// now returns the database's clock in epoch milliseconds.
func (b *bed) now() int64 { return time.Now().Add(b.offset.value()).UnixMilli() }

// since returns the time from an instant of the database to a local time.
func (b *bed) since(at int64, local time.Time) time.Duration { return b.offset.late(local, at) }

// ahead returns how far ahead alarms must be due for n of them to be set before, by how fast they were set last.
func (b *bed) ahead(n int) time.Duration { return b.cfg.ahead + time.Duration(n)*b.perAlarm*3/2 }

// aheadTries is how often alarms are set again, further ahead, that were due before all were set.
const aheadTries = 4

var errSlow = errors.New("alarms cannot be set fast enough: they were due before all were set")

// inTime does what sets n alarms before they are due, and again with more time where that did not do: do returns errSlow
// then.
func (r *run) inTime(b *bed, n int, do func(try int, ahead time.Duration) error) (err error) {
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
