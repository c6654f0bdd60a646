package kafka

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// maxAsked is the most brokers that a probe asks.
	maxAsked = 8
	// probeGrace is how long a probe waits for further replies after the first.
	probeGrace = 200 * time.Millisecond
)

// prober asks brokers whether they work. It asks several at once, because a broker that hangs may keep a request for
// seconds, and must not keep the others from being found.
type prober struct {
	client     *kgo.Client
	configured []string // addresses of the configuration
	addresses  []string // of the client's seeds, in their order
}

func newProber(client *kgo.Client, configured []string) *prober {
	p := &prober{client: client, configured: configured}
	p.learn(nil)
	return p
}

// brokerReply is what a broker has said to a probe.
type brokerReply struct {
	address string
	all     []string // addresses of all brokers of the cluster, as the broker knows them
	err     error
}

// probe returns the addresses of brokers that have replied. Without a reply until ctx ends it returns an error.
func (p *prober) probe(ctx context.Context) (working []string, err error) {
	ctx, cancel := context.WithCancel(ctx)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	brokers := p.client.SeedBrokers()
	asked := rand.Perm(len(brokers))
	asked = asked[:min(len(asked), maxAsked)]
	replies := make(chan brokerReply, len(asked))
	for _, i := range asked {
		asking.Go(func() { replies <- ask(ctx, brokers[i], p.addresses[i]) })
	}
	var all []string
	var enough <-chan time.Time
	for left := len(asked); left > 0; left-- {
		select {
		case r := <-replies:
			if r.err != nil {
				err = r.err
				break
			}
			working, all = append(working, r.address), r.all
			if enough == nil {
				enough = time.After(probeGrace)
			}
		case <-enough:
			left = 0
		}
	}
	if len(working) == 0 {
		return nil, err // of the last broker that was asked
	}
	p.learn(all)
	return working, nil
}

// ask requests the metadata of the cluster, without topics.
func ask(ctx context.Context, broker *kgo.Broker, address string) brokerReply {
	request := kmsg.NewPtrMetadataRequest()
	request.Topics = []kmsg.MetadataRequestTopic{}
	metadata, err := request.RequestWith(ctx, broker)
	if err != nil {
		return brokerReply{err: fmt.Errorf("%s: %w", address, err)}
	}
	r := brokerReply{address: address}
	for _, b := range metadata.Brokers {
		r.all = append(r.all, net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port))))
	}
	return r
}

// learn notes which brokers the cluster has. Later probes ask them, and the brokers of the configuration.
func (p *prober) learn(all []string) {
	next := slices.Concat(p.configured, all)
	slices.Sort(next)
	next = slices.Compact(next)
	if !slices.Equal(next, p.addresses) && p.client.UpdateSeedBrokers(next...) == nil {
		p.addresses = next
	}
}
