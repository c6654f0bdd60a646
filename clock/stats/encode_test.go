package stats

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/clockd/clockd/clock"
)

// drawFigures draws figures as a recorder makes them.
func drawFigures(t *rapid.T, most int64) Figures {
	count := func(name string) int64 { return rapid.Int64Range(0, most).Draw(t, name) }
	f := Figures{Sets: count("sets"), Cancels: count("cancels"), Refused: count("refused"), Rings: count("rings"),
		Failed: count("failed")}
	f.Lateness = sketchOf(rapid.SliceOfN(rapid.Int64Range(0, 400_000_000), 0, 300).Draw(t, "latenesses"))
	for i := range f.Lateness.Buckets {
		f.Lateness.Buckets[i].Count = 1 + count("bucket")/2
	}
	return f
}

func TestEncodedStepsAreDecodedAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := Step{Total: drawFigures(t, maxCount), Applications: map[string]*Figures{}}
		for i := range rapid.IntRange(0, MaxApplications).Draw(t, "applications") {
			f := drawFigures(t, maxCount)
			s.Applications[fmt.Sprint(strings.Repeat("a", clock.MaxApplication-1), i)] = &f
		}
		text, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if len(text) > clock.MaxStepFigures {
			t.Fatalf("%d bytes", len(text))
		}
		if got, err := decode(text); err != nil || !reflect.DeepEqual(got, s) {
			t.Fatalf("%s: got %+v, %v; want %+v", text, got, err, s)
		}
	})
}

func TestTheLargestStepIsStored(t *testing.T) {
	var largest Figures
	for i := range buckets {
		largest.Lateness.Buckets = append(largest.Lateness.Buckets, Bucket{int16(i), maxCount})
	}
	largest.Sets, largest.Cancels, largest.Refused = maxCount, maxCount, maxCount
	largest.Rings, largest.Failed = maxCount, maxCount
	largest.Lateness.Max = 1<<63 - 1
	s := Step{Total: largest, Applications: map[string]*Figures{}}
	for i := range MaxApplications {
		s.Applications[fmt.Sprint(strings.Repeat("a", clock.MaxApplication-1), i)] = &largest
	}
	text, err := s.encode()
	if err != nil || len(text) > clock.MaxStepFigures {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestOddTextsAreNoSteps(t *testing.T) {
	nine := make([]string, 0, 9)
	for i := range 9 {
		nine = append(nine, fmt.Sprintf(`"a%d":{}`, i))
	}
	for _, text := range []string{
		``, `null`, `{}`, `{"version":2}`, `{"version":1,"sets":-1}`,
		`{"version":1,"rings":1099511627777}`, `{"version":1,"sets":1.5}`,
		`{"version":1,"lateness_max":-1}`, `{"version":1,"lateness":[-1,1]}`, `{"version":1,"lateness":[200,1]}`,
		`{"version":1,"lateness":[3,1,3,1]}`, `{"version":1,"lateness":[3,0]}`, `{"version":1,"lateness":[3]}`,
		`{"version":1,"applications":{"a b":{}}}`,
		`{"version":1,"applications":{"a":{"sets":-1}}}`,
		`{"version":1,"applications":{` + strings.Join(nine, ",") + `}}`,
	} {
		if s, err := decode(text); err == nil {
			t.Errorf("%s is %+v", text, s)
		}
	}
	s, err := decode(`{"version":1,"applications":{"a":{}},"unknown":[]}`)
	if err != nil || s.Applications["a"] == nil {
		t.Errorf("%+v, %v", s, err)
	}
}

func FuzzDecode(f *testing.F) {
	s := Step{Total: Figures{Sets: 3, Lateness: sketchOf([]int64{0, 5, 90})},
		Applications: map[string]*Figures{"shop": {Rings: 1}}}
	text, err := s.encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add(`{"version":1,"lateness":[0,1,199,2],"lateness_max":9223372036854775807}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := decode(text)
		if err != nil {
			return
		}
		if n := s.Total.Lateness.Count(); n < 0 || s.Total.Activity() < 0 || s.Total.Lateness.Quantile(.5) < 0 {
			t.Errorf("%d latenesses, %+v", n, s.Total)
		}
		again, err := s.encode()
		if err != nil {
			t.Fatal(err)
		}
		if same, err := decode(again); err != nil || !reflect.DeepEqual(same, s) {
			t.Errorf("%s: %+v, then %+v, %v", text, s, same, err)
		}
	})
}

func BenchmarkEncode(b *testing.B) {
	var late []int64
	for i := range int64(40) {
		late = append(late, i*i)
	}
	f := Figures{Sets: 12345, Cancels: 9876, Rings: 54321, Lateness: sketchOf(late)}
	s := Step{Total: f, Applications: map[string]*Figures{}}
	for i := range MaxApplications {
		s.Applications[fmt.Sprint("application-", i)] = &f
	}
	for b.Loop() {
		text, err := s.encode()
		if err == nil {
			_, err = decode(text)
		}
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(text)))
	}
}
