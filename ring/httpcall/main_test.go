package httpcall

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/clockd/clockd/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeSender makes no requests.
type fakeSender struct {
	address     string
	concurrency int
}

func (s *fakeSender) Address() string        { return s.address }
func (s *fakeSender) Concurrency() int       { return s.concurrency }
func (s *fakeSender) Timeout() time.Duration { return time.Minute }

func (s *fakeSender) NewExchange(*clock.Ring) (Exchange, error) { return nil, errors.New("a fake") }
