package clock

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Waker is told what was committed, so that an alarm due soon is rung on time. It gets all decisions of a transaction,
// those that write nothing too, and must not block, change or keep the slice.
type Waker interface {
	Wake(written []Decision)
}

// ServiceConfig bounds what the Service takes in.
type ServiceConfig struct {
	MaxPayload int // bytes a payload, at most; default DefaultMaxPayload
	Writer     WriterConfig
}

// DefaultServiceConfig returns the defaults that each field names.
func DefaultServiceConfig() ServiceConfig {
	return ServiceConfig{MaxPayload: DefaultMaxPayload, Writer: DefaultWriterConfig()}
}

// Validate returns all reasons against the configuration, joined, or nil.
func (c ServiceConfig) Validate() error {
	var errs []error
	if c.MaxPayload < 0 || c.MaxPayload > 8<<20 {
		errs = append(errs, errors.New("max payload must be from 0 to 8 MiB: a claim holds some payloads in memory, a MEDIUMBLOB keeps 16 MiB"))
	}
	if c.MaxPayload > c.Writer.GroupBytes/2 {
		errs = append(errs, errors.New("max payload must be at most half of the write group's bytes"))
	}
	return errors.Join(append(errs, c.Writer.Validate())...)
}

// Service is what applications talk to: it validates, orders and applies sets, cancels and answers, and reads
// alarms.
type Service struct {
	cfg    ServiceConfig
	store  Store
	time   *Timebase
	writer *Writer
}

// NewService returns a Service; writing needs its Run.
func NewService(cfg ServiceConfig, st Store, tb *Timebase, waker Waker, m *Metrics) (*Service, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	return &Service{cfg: cfg, store: st, time: tb, writer: newWriter(cfg.Writer, st, tb, waker, m)}, nil
}

// Run writes what is submitted until ctx ends and everything submitted by then is answered.
func (s *Service) Run(ctx context.Context) error { return s.writer.Run(ctx) }

// Queued returns how many ops are queued or being written, and the bytes that they hold.
func (s *Service) Queued() (ops, bytes int) {
	return int(s.writer.ops.Load()), int(s.writer.bytes.Load())
}

// Submit validates the op and queues it; it never blocks. Ops on one key take effect in the order of their submission.
// Every failure is in the Pending. What op points to must not be changed afterwards, and is not changed by this.
func (s *Service) Submit(op Op) *Pending {
	if err := s.validate(op); err != nil {
		return failed(op, err)
	}
	if op.Set != nil && op.Set.Delay.Given {
		now, err := s.time.Now()
		if err == nil {
			op.Set, err = op.Set.resolved(now)
		}
		if err != nil {
			return failed(op, err)
		}
	}
	p := newPending(op)
	s.writer.submit(p)
	return p
}

func (s *Service) validate(op Op) error {
	switch {
	case op.Set != nil:
		return op.Set.Validate(s.cfg.MaxPayload)
	case op.Answer != nil:
		return cmp.Or(op.Answer.Key.Validate(), op.Answer.Validate())
	}
	return op.Key().Validate()
}

// Get returns the alarm with its failed attempts, newest first.
func (s *Service) Get(ctx context.Context, k Key) (*Alarm, error) {
	if err := k.Validate(); err != nil {
		return nil, err
	}
	return s.store.Get(ctx, k)
}

// List returns alarms of one application by business id.
func (s *Service) List(ctx context.Context, q ListQuery) ([]Alarm, error) {
	if err := ValidateApplication(q.Application); err != nil {
		return nil, err
	}
	if q.Limit < 1 || q.Limit > MaxListLimit {
		return nil, invalid(CodeOutOfRange, "limit", "limit must be from 1 to 1000")
	}
	if len(q.Prefix) > MaxBusinessID || !utf8.ValidString(q.Prefix) || strings.ContainsFunc(q.Prefix, unicode.IsControl) {
		return nil, invalid(CodeInvalidBusinessID, "prefix", "prefix must be the beginning of a business_id")
	}
	if q.After != "" && ValidateBusinessID(q.After) != nil {
		return nil, invalid(CodeInvalidValue, "cursor", "cursor must be as an answer gave it")
	}
	return s.store.List(ctx, q)
}

// MaxPayload returns the cap on a payload, in bytes.
func (s *Service) MaxPayload() int { return s.cfg.MaxPayload }

// Patience bounds how long the outcome of a submitted op may take: a write group before it, its own, and a lane.
const Patience = 15 * time.Second
