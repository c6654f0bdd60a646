package lease

import (
	"slices"
	"testing"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/store"
)

// The whole application is one line, which builds without parts know too.
func TestAnnouncementOfAllAlarmsIsTheApplication(t *testing.T) {
	all := append([]clock.TargetKind{clock.NoTarget}, clock.TargetKinds()...)
	for _, test := range []struct {
		named   []clock.TargetKind
		resting bool
		want    []string
	}{
		{all, false, []string{"shop"}},
		{all, true, []string{"shop resting"}},
		{[]clock.TargetKind{clock.NoTarget, clock.TargetPull}, false, []string{"shop/0", "shop/6"}},
		{[]clock.TargetKind{clock.TargetPull}, true, []string{"shop/6 resting"}},
		{nil, false, nil},
	} {
		lines := Announcement("shop", test.named, test.resting)
		if !slices.Equal(lines, test.want) {
			t.Errorf("named %v, resting %t: %q, want %q", test.named, test.resting, lines, test.want)
		}
		if applications := AnnouncedApplications(lines); len(lines) > 0 &&
			!slices.Equal(applications, []string{"shop"}) {
			t.Errorf("%q names the applications %q", lines, applications)
		}
	}
}

// A node gets the alarms that its own clients can have, whatever clients another node has for other alarms of the
// application.
func TestNodeRingsTheAlarmsThatItsClientsCanHave(t *testing.T) {
	stream, pull := store.Addressee{Application: "shop"}, store.Named{Target: clock.TargetPull}.Of("shop")
	for _, test := range []struct {
		name         string
		own, other   []string
		stream, pull bool // whether this node rings them in both shards
	}{
		{"subscriber here, worker there", []string{"shop/0"}, []string{"shop/6"}, true, false},
		{"worker here, subscriber there", []string{"shop/6"}, []string{"shop/0"}, false, true},
		{"both here, workers rest there", []string{"shop"}, []string{"shop/6 resting"}, true, true},
		{"workers rest here, worker there", []string{"shop/0", "shop/6 resting"}, []string{"shop/6"}, true, false},
		{"only resting workers, here", []string{"shop resting"}, nil, true, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := store.Cluster{
				Nodes:  []store.Node{{Incarnation: "other", Expires: 10, Applications: test.other}},
				Leases: []store.Lease{{Shard: 0, Incarnation: "self"}, {Shard: 1, Incarnation: "other"}},
			}
			m := newMembership(c, "self", true, test.own, []int{0}, 5)
			for shard := range 2 {
				if rings := slices.Contains(m.loaded, shard) && m.rings(shard, stream); rings != test.stream {
					t.Errorf("shard %d: rings to the stream %t", shard, rings)
				}
				if rings := slices.Contains(m.loaded, shard) && m.rings(shard, pull); rings != test.pull {
					t.Errorf("shard %d: rings to workers %t", shard, rings)
				}
			}
		})
	}
}
