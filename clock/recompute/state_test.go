package recompute

import (
	"maps"
	"reflect"
	"slices"
	"testing"
)

const (
	settle  = 30_000 // ms
	refresh = 10_000
	pause   = 15_000
)

// joined returns the state after nodes with these versions have joined, one second apart.
func joined(versions ...string) *state {
	s := &state{}
	for i, v := range versions {
		s.join(v, digestsOf[v], int64(1000*(i+1)), refresh)
	}
	return s
}

// digestsOf has the digests of the versions in the tests. C is new in 2026b, and D is gone in it.
var digestsOf = map[string]map[string]string{
	"2026a": {"A": "1", "B": "1", "D": "1"},
	"2026b": {"A": "2", "B": "1", "C": "1"},
}

func TestJoinMakesZonesWithOtherRulesPending(t *testing.T) {
	for _, c := range []struct {
		name     string
		versions []string
		version  string
		pending  []string
	}{
		{"first node", []string{"2026b"}, "2026b", nil},
		{"same data", []string{"2026b", "2026b"}, "2026b", nil},
		{"newer data", []string{"2026a", "2026b"}, "2026b", []string{"A", "C", "D"}},
		{"older data does not lower the version", []string{"2026b", "2026a"}, "2026b", []string{"A", "C", "D"}},
	} {
		s := joined(c.versions...)
		if got := slices.Sorted(maps.Keys(s.Pending)); s.Version != c.version || !slices.Equal(got, c.pending) ||
			!maps.Equal(s.Digests, digestsOf[c.version]) {
			t.Errorf("%s: version %s, pending %v", c.name, s.Version, got)
		}
		text, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if decoded, err := decode(text); err != nil || !reflect.DeepEqual(&decoded, s) {
			t.Errorf("%s: decoded %+v, %v", c.name, decoded, err)
		}
	}
}

func TestOlderNodesRepeatTheirRequests(t *testing.T) {
	s := joined("2026b", "2026a")
	if s.join("2026a", digestsOf["2026a"], 2000+refresh-1, refresh) {
		t.Error("a request was repeated within refresh")
	}
	if !s.join("2026a", digestsOf["2026a"], 2000+refresh, refresh) || s.Pending["A"].Requested != 2000+refresh {
		t.Errorf("the request was not repeated: %+v", s.Pending)
	}
	if s.join("2026b", digestsOf["2026b"], 99_000, refresh) {
		t.Error("a node with the newest data changed the state")
	}
}

// scanAll scans the next zone in one page, which begins and ends at now.
func scanAll(s *state, now int64, failed bool) (zone string) {
	p, found := s.next(now)
	if !found {
		return ""
	}
	s.begin(p)
	p.failed, p.last = failed, true
	s.finish(p, now, settle, pause)
	return p.zone
}

// scanRest scans all zones that may be scanned at now.
func scanRest(s *state, now int64) {
	if scanAll(s, now, false) != "" {
		scanRest(s, now)
	}
}

func TestZonesStayPendingUntilAScanAfterTheLastRequest(t *testing.T) {
	s := joined("2026a", "2026b")
	for _, want := range []string{"A", "C", "D", ""} {
		if got := scanAll(s, 3000, false); got != want {
			t.Fatalf("scanned %q, want %q", got, want)
		}
	}
	if len(s.Pending) != 3 {
		t.Fatalf("pending after the first scans: %v", s.Pending)
	}
	if got := scanAll(s, 3000+pause-1, false); got != "" {
		t.Errorf("scanned %s again without a pause", got)
	}
	scanAll(s, 2000+settle, true)
	if _, pending := s.Pending["A"]; !pending {
		t.Error("a scan that left out an alarm ended the recomputation")
	}
	s.request([]string{"C"}, 2000+settle, refresh)
	scanRest(s, 2000+settle+pause)
	if got := slices.Sorted(maps.Keys(s.Pending)); !slices.Equal(got, []string{"C"}) {
		t.Errorf("pending: %v, want the zone that an older node asked for meanwhile", got)
	}
	scanRest(s, 2000+2*settle+pause)
	if len(s.Pending) != 0 || s.Owner != "" {
		t.Errorf("after the last scan: %+v", s)
	}
}

func TestScansGoOnAtTheirStoredPosition(t *testing.T) {
	s := joined("2026a", "2026b")
	first, _ := s.next(5000)
	s.begin(first)
	first.to, first.failed = 500, true
	if !s.finish(first, 6000, settle, pause) || s.finish(first, 6000, settle, pause) {
		t.Error("a page is noted once")
	}
	second, _ := s.next(7000)
	if second.zone != "A" || second.begun != 5000 || second.from != 500 || second.to != 500 {
		t.Errorf("the next page is %+v", second)
	}
	second.last = true
	s.finish(second, 8000, settle, pause)
	if got := s.Pending["A"]; got.NotBefore != 8000+9*3000 || got.After != 0 || got.Failed {
		t.Errorf("after a scan of 3 s: %+v", got)
	}
}

func TestOneNodeScansUntilItsLeaseExpires(t *testing.T) {
	s := state{Owner: "x", Until: 1000}
	for _, c := range []struct {
		incarnation string
		now         int64
		want        bool
	}{{"x", 500, true}, {"x", 5000, true}, {"y", 999, false}, {"y", 1000, true}} {
		if got := s.mayOwn(c.incarnation, c.now); got != c.want {
			t.Errorf("%s at %d: %v", c.incarnation, c.now, got)
		}
	}
}
