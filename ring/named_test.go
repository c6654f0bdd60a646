package ring_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/clockd/clockd/clock"
)

// setNamed sets an alarm that names a target.
func (n *node) setNamed(businessID string, delay time.Duration, target clock.TargetKind) int64 {
	return n.set("well", businessID, delay, func(s *clock.Set) { s.Target = target })
}

// Alarms of one application name the targets of both routes. Each rings at its own target, although the heap is far too
// small for all of them and the other target is away for most of the time.
func TestNamedTargetsHoldUpNoOtherAlarmsOfTheirApplication(t *testing.T) {
	for _, away := range []clock.TargetKind{clock.TargetAMQP, clock.TargetStream} {
		t.Run(away.String(), func(t *testing.T) {
			cfg := twoRoutes()
			cfg.capacity = 64
			inBubble(t, cfg, func(t *testing.T, n *node) {
				targets := map[clock.TargetKind]*modelTarget{clock.TargetAMQP: n.target, clock.TargetStream: n.second}
				other := clock.TargetAMQP + clock.TargetStream - away
				targets[away].setDown(errDown)
				var waiting, quick []int64
				for i := range 400 {
					waiting = append(waiting, n.setNamed(fmt.Sprint("waiting", i), time.Second, away))
				}
				for i := range 200 {
					quick = append(quick,
						n.setNamed(fmt.Sprint("quick", i), time.Second+time.Duration(i)*50*time.Millisecond, other))
				}
				time.Sleep(20 * time.Second)
				n.wantRungOnce(quick, 0)
				if rings := targets[other].all(); len(rings) != len(quick) {
					t.Errorf("%d rings at the target of %d alarms", len(rings), len(quick))
				}
				targets[away].setDown(nil)
				time.Sleep(20 * time.Second)
				n.wantRungOnce(waiting, time.Hour)
				if rings := targets[away].all(); len(rings) != len(waiting) {
					t.Errorf("%d rings at the target of %d alarms", len(rings), len(waiting))
				}
			})
		})
	}
}

// A set changes the target that an alarm names, in the last moments before it is due. It rings once, at the target of
// the last set, whether or not the loop learns of the set in time.
func TestAlarmRingsAtTheTargetOfItsLastSet(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("wake-ups lost %t", lost), func(t *testing.T) {
			inBubble(t, twoRoutes(), func(t *testing.T, n *node) {
				targets := []clock.TargetKind{clock.NoTarget, clock.TargetStream, clock.TargetAMQP}
				due := 5 * time.Second
				last := map[int64]clock.TargetKind{}
				for i := range 90 {
					n.setNamed(fmt.Sprint(i), due, targets[i%3])
				}
				time.Sleep(4 * time.Second) // the heap has them
				n.losesWakeUps = lost
				for i := range 90 {
					last[n.setNamed(fmt.Sprint(i), due, targets[i/3%3])] = targets[i/3%3]
				}
				time.Sleep(10 * time.Second)
				for at, target := range map[clock.TargetKind]*modelTarget{clock.TargetAMQP: n.target, clock.TargetStream: n.second} {
					for _, r := range target.all() {
						if want := last[r.alarm]; want != at && (want != clock.NoTarget || at != clock.TargetAMQP) {
							t.Errorf("alarm %d, last set for %q, rang at %s", r.alarm, want, at)
						}
					}
				}
				n.wantRungOnce(slices.Collect(maps.Keys(last)), 3*time.Second)
			})
		})
	}
}
