package bench

import (
	"context"
	"errors"
	"time"
)

// bed is where one stage is measured: a fresh database, a fresh exchange with a queue, and a fresh service on them.
type bed struct {
	db     database
	broker *broker // nil: rings go to the stream
	child  *child
	offset clockOffset
}

// cleanTimeout bounds what is done after the stage, or after an interrupt.
const cleanTimeout = 30 * time.Second

func (r *run) makeBed(ctx context.Context) (*bed, error) {
	b := &bed{}
	if err := r.fillBed(ctx, b); err != nil {
		return nil, errors.Join(err, b.close(ctx))
	}
	return b, nil
}

func (r *run) fillBed(ctx context.Context, b *bed) (err error) {
	name := randomName()
	if b.db, err = newDatabase(ctx, r.cfg.DatabaseURL, name); err != nil {
		return err
	}
	r.report.Target = "stream"
	exchange := ""
	if r.cfg.AMQPURL != "" {
		if b.broker, err = newBroker(r.cfg.AMQPURL, name, r.cfg.Queue); err != nil {
			return err
		}
		exchange = name
		r.report.Target = b.broker.Engine() + ", " + r.cfg.Queue + " queue"
	}
	if r.report.Database, err = b.db.Engine(ctx); err != nil {
		return err
	}
	if b.offset, err = measureOffset(ctx, b.db.Time); err != nil {
		return err
	}
	b.child, err = startChild(ctx, &r.cfg, b.db.URL(), exchange)
	return err
}

// close ends the service and removes what was made, whatever became of ctx.
func (b *bed) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTimeout)
	defer cancel()
	var errs []error
	if b.child != nil {
		errs = append(errs, b.child.stop())
	}
	if b.broker != nil {
		errs = append(errs, b.broker.Drop())
	}
	if b.db != nil {
		errs = append(errs, b.db.Drop(ctx))
	}
	return errors.Join(errs...)
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
