package clock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// ServiceConfig has the limits of the Service.
type ServiceConfig struct {
	MaxPayload int // bytes of a payload, at most; default DefaultMaxPayload
	Writer     WriterConfig
}

// DefaultServiceConfig returns the default configuration.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{MaxPayload: DefaultMaxPayload, Writer: DefaultWriterConfig()}
}

// Validate returns all faults of the configuration, joined, or nil.
func (c ServiceConfig) Validate() error {
	var errs []error
	if c.MaxPayload < 0 || c.MaxPayload > MaxStoredPayload {
		errs = append(errs,
			fmt.Errorf("max payload must be from 0 to %d MiB: a claim holds some payloads in memory, a MEDIUMBLOB keeps 16 MiB", MaxStoredPayload>>20))
	}
	if c.MaxPayload > c.Writer.GroupBytes/2 {
		errs = append(errs,
			fmt.Errorf("max payload must be at most %d: a transaction takes twice as many bytes", c.Writer.GroupBytes/2))
	}
	return errors.Join(append(errs, c.Writer.Validate())...)
}

// Service serves the requests of applications. It validates, orders and applies sets, cancels and answers, and reads
// alarms.
type Service struct {
	cfg    ServiceConfig
	store  Store
	time   *Timebase
	writer *Writer

	defaults    func(application string) *Defaults // see ServiceDeps
	ownReceiver func(*Set) (OwnPlace, error)       // see ServiceDeps
	quotas      QuotaKeeper                        // see ServiceDeps
}

// ServiceDeps are the parts that the Service uses.
type ServiceDeps struct {
	Store    Store
	Prober   WriteProber // nil: only requests show whether writes succeed
	Time     *Timebase
	Listener CommitListener
	Defaults func(application string) *Defaults // defaults of an application, nil if it never had settings; must not block. Nil: none has any
	// OwnReceiver judges the receiver that a set brings itself by the settings of its application. Its error is an
	// ErrInvalid of a field of receiver. It must not block. Nil: no set may bring one.
	OwnReceiver func(*Set) (OwnPlace, error)
	Quotas      QuotaKeeper  // nil: only the quota of payloads holds
	Metrics     Metrics      // the zero value drops measurements
	Log         *slog.Logger // nil: no log
}

// NewService returns a Service. It writes nothing until Run is called.
func NewService(cfg ServiceConfig, deps ServiceDeps) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if deps.Log == nil {
		deps.Log = slog.New(slog.DiscardHandler)
	}
	writer := newWriter(cfg.Writer, cfg.MaxPayload, writerDeps{
		store: deps.Store, prober: deps.Prober, time: deps.Time, listener: deps.Listener, metrics: deps.Metrics,
		log: deps.Log,
	})
	if deps.Defaults == nil {
		deps.Defaults = func(string) *Defaults { return nil }
	}
	if deps.OwnReceiver == nil {
		deps.OwnReceiver = func(*Set) (OwnPlace, error) {
			return OwnPlace{}, invalid(CodeReceiverNotAllowed, "receiver", "this server takes no receiver in a set")
		}
	}
	return &Service{cfg: cfg, store: deps.Store, time: deps.Time, writer: writer, defaults: deps.Defaults,
		ownReceiver: deps.OwnReceiver, quotas: deps.Quotas}, nil
}

// Run writes submitted ops until ctx ends and every op submitted by then has its decision.
func (s *Service) Run(ctx context.Context) error { return s.writer.Run(ctx) }

// Undecided returns the number of ops that are queued or being written, and their bytes in memory.
func (s *Service) Undecided() (ops, bytes int) {
	return s.writer.undecided()
}

// Writable returns an error if all writes of the last seconds have failed, so that sets cannot be served; else nil.
func (s *Service) Writable() error { return s.writer.watch.failing() }

// In returns an instant by which d has passed for certain, by the database's clock. It returns ErrUnavailable if that
// clock is not known.
func (s *Service) In(d time.Duration) (Instant, error) { return s.time.In(d) }

// Submit validates the op and queues it. It never blocks. Ops on one key take effect in the order of their submission.
// ctx must last as long as the caller waits. Every failure is in the Pending. Submit does not change the structs that
// op points to, and the caller must not change them afterwards.
func (s *Service) Submit(ctx context.Context, op Op) *Pending {
	rules := SetRules{OwnReceiver: s.ownReceiver}
	if op.Set != nil || op.Cancel != nil { // settings matter to them
		rules.Defaults = s.defaults(op.Key().Application)
	}
	return s.SubmitUnder(ctx, op, &rules)
}

// SubmitUnder is Submit under other rules for sets than the latest that this process knows.
func (s *Service) SubmitUnder(ctx context.Context, op Op, rules *SetRules) *Pending {
	if err := s.prepare(&op, rules); err != nil {
		return refused(op, err)
	}
	admission, err := s.admit(&op, rules.Defaults)
	if err != nil {
		return refused(op, err)
	}
	p := newPending(ctx, op)
	p.ended = admission.Ended
	s.writer.submit(p)
	return p
}

// SetRules are what the settings of an application say about its sets.
type SetRules struct {
	Defaults    *Defaults                    // nil: there are no settings
	OwnReceiver func(*Set) (OwnPlace, error) // see ServiceDeps
}

// prepare validates an op, and makes its set as it is stored. It does not change the set that op points to.
func (s *Service) prepare(op *Op, rules *SetRules) error {
	if err := applyDefaults(op, rules.Defaults); err != nil {
		return err
	}
	if err := s.validate(*op); err != nil {
		return err
	}
	if op.Set != nil && op.Set.Receiver != "" {
		set, err := withReceiver(op.Set, rules)
		if err != nil {
			return err
		}
		op.Set = set
	}
	if op.Set != nil && op.Set.Delay.Given {
		at, err := s.In(op.Set.Delay.Span)
		if err == nil {
			op.Set, err = op.Set.resolved(at)
		}
		return err
	}
	return nil
}

// Plan judges a set as if its application had other rules, and changes nothing. before is the alarm as it is, nil for
// none. The error says why no state of the alarm allows the set; Decision.Err is of this state. Of all quotas it judges
// the size of payloads alone.
func (s *Service) Plan(ctx context.Context, set *Set, rules *SetRules) (before *Alarm, d Decision, err error) {
	op := Op{Set: set}
	if err := s.prepare(&op, rules); err != nil {
		return nil, d, err
	}
	if rules.Defaults != nil {
		if err := rules.Defaults.Quotas.checkPayload(op.Set); err != nil {
			return nil, d, err
		}
	}
	before, err = s.store.Get(ctx, set.Key)
	if err != nil && !errors.Is(err, ErrNotFound) {
		return nil, d, err
	}
	now, err := s.In(0)
	if err != nil {
		return nil, d, err
	}
	return before, op.Decide(before, now), nil
}

// admit judges a valid op by the quotas of its application, which are in the defaults.
func (s *Service) admit(op *Op, defaults *Defaults) (a Admission, err error) {
	if defaults == nil || defaults.Quotas == (Quotas{}) {
		return a, nil
	}
	if op.Set != nil {
		err = defaults.Quotas.checkPayload(op.Set)
	}
	if err != nil || s.quotas == nil {
		return a, err
	}
	a, err = s.quotas.Admit(op, &defaults.Quotas)
	if a.Room != nil {
		set := *op.Set
		set.Room, op.Set = a.Room, &set
	}
	return a, err
}

// applyDefaults gives a set the defaults of its application. It refuses a set that names a target which they do not
// allow, or a destination which they do not have.
func applyDefaults(op *Op, defaults *Defaults) error {
	if op.Set == nil || op.Set.Omitted == 0 && op.Set.Target == NoTarget {
		return nil
	}
	if op.Set.Destination.Name != "" {
		return applyDestination(op, defaults)
	}
	if op.Set.Target != NoTarget && !defaults.Allows(op.Set.Target) {
		return invalid(CodeTargetNotAllowed, "target", fmt.Sprintf(
			"the settings of application %.64q do not let its alarms name the target %s. To allow it: clockd application set %[1]s --alarm-targets %[2]s",
			op.Set.Application, op.Set.Target))
	}
	if defaults != nil {
		op.Set = op.Set.withDefaults(defaults)
	}
	return nil
}

// applyDestination gives a set that names a destination the destination's number, and the defaults.
func applyDestination(op *Op, defaults *Defaults) error {
	target := TargetText(op.Set.Target, op.Set.Destination.Name)
	number := 0
	if defaults != nil {
		number = defaults.Destinations[target]
	}
	if number == 0 {
		return invalid(CodeUnknownDestination, "target", fmt.Sprintf(
			"the settings of application %.64q have no destination %s. To make it: clockd application set %[1]s "+
				"--destination %[3]s, with the flags of %[4]s",
			op.Set.Application, target, op.Set.Destination.Name, op.Set.Target))
	}
	op.Set = op.Set.withDefaults(defaults)
	op.Set.Destination.Number = number
	return nil
}

// withReceiver returns a copy of a set with its own receiver as it is stored.
func withReceiver(set *Set, rules *SetRules) (*Set, error) {
	place, err := rules.OwnReceiver(set)
	if err == nil && place.Fields != "" {
		err = ValidateReceiver(place.Fields) // it may have grown by escapes
	}
	if err != nil {
		return nil, err
	}
	r := *set
	if r.Receiver = place.Fields; place.Number != 0 {
		r.Destination.Number = place.Number
	}
	return &r, nil
}

func (s *Service) validate(op Op) error {
	switch {
	case op.Set != nil:
		return op.Set.Validate(s.cfg.MaxPayload)
	case op.Answer != nil:
		return cmp.Or(op.Answer.Key.Validate(), op.Answer.Validate())
	case op.Backfill != nil:
		return cmp.Or(op.Backfill.Key.Validate(), CheckNote(op.Note), op.Backfill.Validate())
	}
	return cmp.Or(op.Key().Validate(), CheckNote(op.Note))
}

// Get returns the alarm with its attempts, newest first.
func (s *Service) Get(ctx context.Context, key Key) (*Alarm, error) {
	if err := key.Validate(); err != nil {
		return nil, err
	}
	return s.store.Get(ctx, key)
}

// List passes alarms of one application to take, as Store.List does. take must not block.
func (s *Service) List(ctx context.Context, query ListQuery, take func(*Alarm) bool) (next ListPosition, err error) {
	if err := query.Validate(); err != nil {
		return ListPosition{}, err
	}
	return s.store.List(ctx, query, take)
}

// MaxPayload returns the largest size of a payload, in bytes.
func (s *Service) MaxPayload() int { return s.cfg.MaxPayload }
