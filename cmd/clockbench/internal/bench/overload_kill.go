package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// killedNodes is the number of nodes of which one is killed.
const killedNodes = 3

// killOne rings a herd on several nodes beside a load, and kills one of them in its middle. Only rings that this node
// had published and not settled may come again.
func (r *run) killOne(ctx context.Context, b *testbed) (err error) {
	for len(b.nodes) < killedNodes {
		if _, err := b.startNode(ctx, fmt.Sprintf("%s%d", firstNode, len(b.nodes))); err != nil {
			return err
		}
	}
	if err := b.waitShares(ctx, killedNodes); err != nil {
		return err
	}
	if err := r.warmUp(ctx, b); err != nil {
		return err
	}
	if b.load, err = startLoad(ctx, &r.cfg); err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, b.load.stop())
		b.load = nil
	}()
	r.progress.say("overload: one of %d nodes is killed in the middle of a herd", killedNodes)
	victim, inFlight := b.nodes[killedNodes-1], 0
	h, err := r.ringHerd(ctx, b, stageOverload, "killed", r.cfg.Herd, func() error {
		awaited, err := metric(ctx, victim.url, "clockd_ring_awaited")
		inFlight = ringWorkers*ringRows + int(awaited)
		victim.kill()
		return err
	})
	if err != nil {
		return err
	}
	r.add(stageOverload,
		copiesFigure(fmt.Sprintf("one of %d nodes killed in a herd of %s, under load", killedNodes, commas(int64(r.cfg.Herd))), h.rings, inFlight),
		Figure{What: "one node killed, last ring after", Unit: seconds, Value: h.took.Seconds()},
	)
	return nil
}

var errNoMetric = errors.New("the node shows no metric")

// metric returns the sum of a node's metrics whose name and labels begin with prefix. If there is none, the error is
// errNoMetric.
func metric(ctx context.Context, base, prefix string) (sum float64, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	res, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { _ = res.Body.Close() }()
	lines, found := bufio.NewScanner(res.Body), false
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), " ")
		if v, err := strconv.ParseFloat(value, 64); err == nil && strings.HasPrefix(name, prefix) {
			sum, found = sum+v, true
		}
	}
	if !found {
		return 0, errors.Join(fmt.Errorf("%w %s", errNoMetric, prefix), lines.Err())
	}
	return sum, lines.Err()
}
