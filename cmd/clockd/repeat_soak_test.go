//go:build soak

package main

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

const (
	definitions = 1000 // repeating alarms, one occurrence a second each
	occurrences = 60   // of each alarm
)

// A thousand alarms ring every second for a minute. With missed "all" each of them rings exactly 60 times. By default
// its rings and its counted misses are 60. The log has the lateness beside that of as many alarms that ring once.
func TestSoakEachOfAThousandAlarmsRingsEverySecond(t *testing.T) {
	for _, e := range engines { // one after the other, because they share the machine
		t.Run(e.name, func(t *testing.T) {
			b := dialBroker(t, amqpURL())
			p := startOn(t, e.open(t), b)
			single := receiveFrom(p, b, "single")
			p.setEachSecond("single", func(_, second int, begin time.Time) map[string]any {
				return map[string]any{"ring_at": begin.Add(time.Duration(second) * time.Second).UnixMilli()}
			}, 20)
			eventually(t, "the alarms that ring once have rung",
				func() bool { return single.number() >= 20*definitions })
			logLateness(t, "ring once", single.all())
			for _, missed := range []string{"all", "once"} {
				repeated := receiveFrom(p, b, missed)
				begin := p.setEachSecond(missed, func(_, _ int, begin time.Time) map[string]any {
					return map[string]any{"repeat": map[string]any{"every": "1s", "anchor": begin.UnixMilli(),
						"times": occurrences, "missed": missed}}
				}, 1)
				end := begin.Add((occurrences + 1) * time.Second)
				eventually(t, "the minute is over", func() bool { return time.Now().After(end) }) // reads would disturb the measurement
				eventually(t, "all definitions are over",
					func() bool {
						return p.inState(missed, clock.Rung)+p.inState(missed,
							clock.Expired) == definitions
					})
				logLateness(t, "missed "+missed, repeated.all())
				distinct, _ := repeated.byID()
				lost := 0
				for i := range definitions {
					id := fmt.Sprintf("0-%d", i)
					c := p.occurrences(missed, id).Occurrence
					if missed == "all" && c.Rung != occurrences || c.Rung+c.Missed+c.Skipped != occurrences ||
						int64(distinct[id]) != c.Rung {
						t.Errorf("%s of %s: %d rings arrived, %+v", id, missed, distinct[id], c)
					}
					lost += int(c.Missed + c.Skipped)
				}
				t.Logf("missed %s: %d of %d occurrences did not ring, and are counted", missed, lost,
					definitions*occurrences)
			}
		})
	}
}

// setEachSecond sets that many alarms for each of the seconds. It returns the begin of the first second. All are set
// before.
func (p *process) setEachSecond(
	application string, alarm func(i, second int, begin time.Time) map[string]any, seconds int,
) (begin time.Time) {
	p.t.Helper()
	begin = time.Now().Add(time.Duration(5+seconds/4) * time.Second).Truncate(time.Second)
	for second := range seconds {
		for from := 0; from < definitions; from += 500 {
			sets := make([]map[string]any, 500)
			for i := range sets {
				sets[i] = alarm(from+i, second, begin.Add(time.Duration(from+i)*time.Second/definitions)) // spread over the second
				sets[i]["business_id"] = fmt.Sprintf("%d-%d", second, from+i)
			}
			p.must(http.StatusOK, http.MethodPost, "/v1/applications/"+application+"/alarms",
				map[string]any{"set": sets})
		}
	}
	if late := time.Since(begin); late > 0 {
		p.t.Errorf("the alarms were set %s too late", late)
	}
	return begin
}

func logLateness(t *testing.T, what string, rings []receivedRing) {
	t.Helper()
	l := lateness(rings)
	t.Logf("%s: %d rings, p50 %s, p99 %s, longest %s", what, len(l), l[len(l)/2], l[len(l)*99/100], l[len(l)-1])
}
