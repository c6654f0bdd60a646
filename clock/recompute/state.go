package recompute

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// state is the stored document. All instants are epoch milliseconds by the database's clock.
type state struct {
	Version string                 `json:"version"`           // newest time-zone data that a node has had
	Digests map[string]string      `json:"digests"`           // of each zone, in that version
	Pending map[string]pendingZone `json:"pending,omitempty"` // zones whose alarms are to be recomputed
	Owner   string                 `json:"owner,omitempty"`   // incarnation of the node that scans
	Until   int64                  `json:"until,omitempty"`   // end of the owner's lease
}

// pendingZone is a zone whose alarms are to be recomputed.
type pendingZone struct {
	Requested int64 `json:"requested"`            // when a node last asked for the recomputation
	Begun     int64 `json:"begun,omitempty"`      // begin of the present scan; 0: the next scan has not begun
	After     int64 `json:"after,omitempty"`      // alarms up to this id are done
	Failed    bool  `json:"failed,omitempty"`     // the present scan has left out an alarm
	NotBefore int64 `json:"not_before,omitempty"` // earliest begin of the next scan
}

func decode(document string) (s state, err error) {
	if document == "" {
		return state{}, nil
	}
	if err := json.Unmarshal([]byte(document), &s); err != nil {
		return state{}, fmt.Errorf("decode the state of time-zone data: %w", err)
	}
	return s, nil
}

func (s *state) encode() (string, error) {
	text, err := json.Marshal(s)
	return string(text), err
}

// join notes that a node with this data takes part. It reports whether the state has changed. An older node repeats the
// call; within refresh of the last request the state stays.
func (s *state) join(version string, digests map[string]string, now int64, refresh int64) (changed bool) {
	if version == s.Version {
		return false
	}
	differing := s.differing(digests)
	if version < s.Version {
		return s.request(differing, now, refresh)
	}
	isFirst := s.Version == "" // no alarm was computed by other data
	s.Version, s.Digests = version, digests
	if !isFirst {
		s.request(differing, now, 0)
	}
	return true
}

// differing returns the zones whose rules differ from the stored version.
func (s *state) differing(digests map[string]string) (names []string) {
	for name, digest := range digests {
		if s.Digests[name] != digest {
			names = append(names, name)
		}
	}
	for name := range s.Digests {
		if _, has := digests[name]; !has {
			names = append(names, name)
		}
	}
	return names
}

// request makes zones pending. A zone that was requested within refresh stays as it is.
func (s *state) request(zones []string, now int64, refresh int64) (changed bool) {
	for _, name := range zones {
		zone, pending := s.Pending[name]
		if pending && now-zone.Requested < refresh {
			continue
		}
		if s.Pending == nil {
			s.Pending = map[string]pendingZone{}
		}
		zone.Requested = now
		s.Pending[name] = zone
		changed = true
	}
	return changed
}

// page is a page of a scan, and its outcome.
type page struct {
	zone   string
	begun  int64 // begin of the scan
	from   int64 // the page has alarms above this id
	to     int64 // last id of the page; from if it is empty
	failed bool  // an alarm of the page could not be recomputed yet
	last   bool  // no page follows
}

// next returns the page to scan at now: of the first zone whose scan has begun, or may begin.
func (s *state) next(now int64) (p page, found bool) {
	for _, name := range slices.Sorted(maps.Keys(s.Pending)) {
		zone := s.Pending[name]
		if zone.Begun != 0 {
			return page{zone: name, begun: zone.Begun, from: zone.After, to: zone.After}, true
		}
		if zone.NotBefore <= now {
			return page{zone: name, begun: now}, true
		}
	}
	return page{}, false
}

// mayOwn reports whether the node may take, or keep, the lease at now.
func (s *state) mayOwn(incarnation string, now int64) bool {
	return s.Owner == "" || s.Owner == incarnation || s.Until <= now
}

// begin notes that the scan of the page's zone has begun.
func (s *state) begin(p page) {
	zone := s.Pending[p.zone]
	zone.Begun = p.begun
	s.Pending[p.zone] = zone
}

// finish notes the outcome of a page, unless another node has noted it. A scan that is complete ends the recomputation
// of its zone, unless it began within settle after the last request.
func (s *state) finish(p page, now int64, settle, pause int64) (changed bool) {
	zone, pending := s.Pending[p.zone]
	if !pending || zone.Begun != p.begun || zone.After != p.from {
		return false
	}
	zone.After, zone.Failed = p.to, zone.Failed || p.failed
	switch {
	case !p.last:
		s.Pending[p.zone] = zone
	case !zone.Failed && p.begun-zone.Requested >= settle:
		delete(s.Pending, p.zone)
	default:
		const pausesPerScan = 9 // so that scans take at most a tenth of the time
		pause = max(pause, pausesPerScan*(now-p.begun))
		s.Pending[p.zone] = pendingZone{Requested: zone.Requested, NotBefore: now + pause}
	}
	if len(s.Pending) == 0 {
		s.Owner, s.Until = "", 0
	}
	return true
}
