package kafka

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/ring"
	"github.com/clockd/clockd/ring/kafka/kafkatest"
	"github.com/clockd/clockd/ring/targettest"
)

func TestConformance(t *testing.T) {
	targettest.Run(t,
		targettest.Engine{Open: openConformance, Refused: clock.Refused, Absent: clock.Unsent, KnowsReceivers: true, Destinations: true,
			LateTogether: true})
}

// conformanceBench is a target whose receivers are topics.
type conformanceBench struct{ *bench }

func openConformance(t *testing.T) targettest.Bench {
	t.Helper()
	return &conformanceBench{openTarget(t)}
}

func (b *conformanceBench) Target() ring.Target { return b.bench.Target }
func (b *conformanceBench) Reply()              { b.release() }

func (b *conformanceBench) Receive(application string, how targettest.Behaviour) {
	switch how {
	case targettest.Refusing:
		b.create(application, map[string]string{"max.message.bytes": "10"})
		return
	case targettest.Late:
		b.hold()
	case targettest.Well:
	}
	b.create(application, nil)
}

func (b *conformanceBench) Received(application string) (all []targettest.Received) {
	for _, r := range b.records(application) {
		if !strings.HasSuffix(r.Topic, application) {
			b.t.Errorf("a record of %s is in topic %s", application, r.Topic)
		}
		all = append(all, targettest.Received{
			MessageID: kafkatest.Header(r, headerMessageID), BusinessID: kafkatest.Header(r, headerBusinessID),
			ContentType: kafkatest.Header(r, headerContentType), Payload: string(r.Value),
		})
	}
	return all
}
