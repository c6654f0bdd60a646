package stats

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/clockd/clockd/clock"
)

// encoding is the version of the layout. Another growth of the buckets is another layout.
const encoding = 1

// maxCount is the most that a count of a step may be, so that no sum of counts overflows.
const maxCount = 1 << 40

// encodedStep is a step as JSON.
type encodedStep struct {
	Version int `json:"version"`
	encodedFigures

	Applications map[string]encodedFigures `json:"applications,omitempty"`
}

// encodedFigures are Figures as JSON.
type encodedFigures struct {
	Sets        int64         `json:"sets,omitempty"`
	Cancels     int64         `json:"cancels,omitempty"`
	Refused     int64         `json:"refused,omitempty"`
	Rings       int64         `json:"rings,omitempty"`
	Failed      int64         `json:"failed_tries,omitempty"`
	LatenessMax time.Duration `json:"lateness_max,omitempty"` // nanoseconds
	Lateness    []int64       `json:"lateness,omitempty"`     // indices of buckets, each with its count
}

// encode returns the step as JSON.
func (s *Step) encode() (string, error) {
	e := encodedStep{Version: encoding, encodedFigures: encodedFiguresOf(&s.Total),
		Applications: make(map[string]encodedFigures, len(s.Applications))}
	for name, f := range s.Applications {
		e.Applications[name] = encodedFiguresOf(f)
	}
	text, err := json.Marshal(e)
	return string(text), err
}

func encodedFiguresOf(f *Figures) encodedFigures {
	e := encodedFigures{Sets: f.Sets, Cancels: f.Cancels, Refused: f.Refused, Rings: f.Rings, Failed: f.Failed,
		LatenessMax: f.Lateness.Max}
	for _, b := range f.Lateness.Buckets {
		e.Lateness = append(e.Lateness, int64(b.Index), b.Count)
	}
	return e
}

// decode returns the step of a text that encode has written. It refuses any other text.
func decode(text string) (Step, error) {
	var e encodedStep
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		return Step{}, err
	}
	if e.Version != encoding || len(e.Applications) > MaxApplications {
		return Step{}, fmt.Errorf("version %d with %d applications: this build reads version %d with at most %d",
			e.Version, len(e.Applications), encoding, MaxApplications)
	}
	total, err := e.figures()
	if err != nil {
		return Step{}, err
	}
	s := Step{Total: total, Applications: make(map[string]*Figures, len(e.Applications))}
	for name, of := range e.Applications {
		if err := clock.ValidateApplication(name); err != nil {
			return Step{}, err
		}
		f, err := of.figures()
		if err != nil {
			return Step{}, err
		}
		s.Applications[name] = &f
	}
	return s, nil
}

func (e *encodedFigures) figures() (Figures, error) {
	f := Figures{Sets: e.Sets, Cancels: e.Cancels, Refused: e.Refused, Rings: e.Rings, Failed: e.Failed,
		Lateness: Sketch{Max: e.LatenessMax}}
	for _, n := range []int64{e.Sets, e.Cancels, e.Refused, e.Rings, e.Failed} {
		if n < 0 || n > maxCount {
			return Figures{}, fmt.Errorf("count %d is not from 0 to %d", n, int64(maxCount))
		}
	}
	if e.LatenessMax < 0 {
		return Figures{}, fmt.Errorf("lateness %s is negative", e.LatenessMax)
	}
	last := int64(-1)
	if len(e.Lateness)%2 != 0 {
		return Figures{}, fmt.Errorf("the last of %d buckets has no count", len(e.Lateness)/2+1)
	}
	for b := range slices.Chunk(e.Lateness, 2) {
		index, count := b[0], b[1]
		if index <= last || index >= buckets || count < 1 || count > maxCount {
			return Figures{}, fmt.Errorf("bucket %d with %d: indices must ascend below %d, and counts be from 1 to %d",
				index, count, buckets, int64(maxCount))
		}
		f.Lateness.Buckets = append(f.Lateness.Buckets, Bucket{int16(index), count})
		last = index
	}
	return f, nil
}
