package bench

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"
)

// Report is all that a bench found.
type Report struct {
	Version  string    `json:"version"` // of the clockd that was measured
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Host     Host      `json:"host"`
	Load     [2]string `json:"load"` // of the machine in the last minute, before and after
	Database string    `json:"database"`
	Target   string    `json:"target"`
	Plan     Plan      `json:"plan"`
	Figures  []Figure  `json:"figures"`
	Rings    []Rings   `json:"rings"`
}

// Plan is how much was measured.
type Plan struct {
	Sets    int     `json:"sets"`
	Singles int     `json:"singles"`
	Herd    int     `json:"herd"`
	Rounds  int     `json:"rounds"`
	Rate    int     `json:"rate"`
	Seconds float64 `json:"seconds"` // of the lateness
	Pending int     `json:"pending"`
}

// Figure is one result, with what the same machine could do at most (or at best) beside it.
type Figure struct {
	Stage       string   `json:"stage"`
	What        string   `json:"what"`
	Unit        string   `json:"unit"`
	Value       float64  `json:"value"`
	CeilingWhat string   `json:"ceiling_what,omitempty"`
	Ceiling     *float64 `json:"ceiling,omitempty"`
	Ratio       *float64 `json:"ratio,omitempty"`           // value by ceiling
	Samples     samples  `json:"samples,omitempty"`         // of the rounds; the value is their median
	Ceilings    samples  `json:"ceiling_samples,omitempty"` // the same of the ceiling
	Target      string   `json:"target,omitempty"`
	Verdict     string   `json:"verdict,omitempty"` // met or missed, where there is a target
}

// Units.
const (
	perSecond = "/s"
	millis    = "ms"
	mebibytes = "MiB"
	micros    = "us"
)

// What a verdict says.
const (
	verdictMet    = "met"
	verdictMissed = "missed"
)

// figureOf returns the median of the rounds.
func figureOf(what, unit string, rounds samples) Figure {
	return Figure{What: what, Unit: unit, Value: rounds.median(), Samples: rounds}
}

// besideAll puts the median of a ceiling's rounds beside the figure.
func (f Figure) besideAll(what string, rounds samples) Figure {
	f.Ceilings = rounds
	return f.beside(what, rounds.median())
}

// beside puts the ceiling beside the figure.
func (f Figure) beside(what string, ceiling float64) Figure {
	f.CeilingWhat, f.Ceiling = what, &ceiling
	if ceiling > 0 {
		ratio := f.Value / ceiling
		f.Ratio = &ratio
	}
	return f
}

// ratioAtLeast judges by the ratio.
func (f Figure) ratioAtLeast(target float64) Figure { //nolint:unparam // one figure has such a target so far
	return f.judged(fmt.Sprintf("ratio >= %g", target), f.Ratio != nil && *f.Ratio >= target)
}

// atMost judges by the value.
func (f Figure) atMost(target float64) Figure {
	return f.judged(fmt.Sprintf("<= %g %s", target, f.Unit), f.Value <= target)
}

func (f Figure) judged(target string, met bool) Figure {
	f.Target, f.Verdict = target, verdictMissed
	if met {
		f.Verdict = verdictMet
	}
	return f
}

// rate returns how many a second; 0 for no time.
func rate(n int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// each returns the microseconds that one of n took.
func each(n int, took time.Duration) float64 { return float64(took.Microseconds()) / float64(n) }

// mib returns bytes in MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Bad returns what makes the bench a failure whatever its speed: rings that were lost, early or wrong.
func (r *Report) Bad() error {
	for _, c := range r.Rings {
		if c.Lost+c.Early+c.Wrong+c.Foreign+c.Again > 0 {
			return fmt.Errorf("%s: of %d rings %d were lost, %d early, %d had a wrong payload, %d were of unknown alarms, %d came again under another message id",
				c.Stage, c.Expected, c.Lost, c.Early, c.Wrong, c.Foreign, c.Again)
		}
	}
	return nil
}

// Write prints the report for people.
func (r *Report) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush tells what failed
	line("clockd %s, %s, %s\n", r.Version, r.Database, r.Target)
	line("%d cores (%s), load %s before and %s after, %.0f s\n\n", r.Host.Cores, r.Host.CPU, r.Load[0], r.Load[1], r.Seconds)
	line("WHAT\tFIGURE\tCEILING\tOF\tRATIO\tTARGET\tVERDICT\n")
	for i := range r.Figures {
		f := r.Figures[i]
		line("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.What, number(f.Value, f.Unit), f.ceiling(), f.CeilingWhat, f.ratio(), f.Target, f.Verdict)
	}
	line("\nRINGS\tEXPECTED\tRUNG\tLOST\tEARLY\tDUPLICATES\tAGAIN\tWRONG\tFOREIGN\n")
	for _, c := range r.Rings {
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.Stage, c.Expected, c.Rung, c.Lost, c.Early, c.Duplicates, c.Again, c.Wrong, c.Foreign)
	}
	return table.Flush()
}

func (f Figure) ceiling() string {
	if f.Ceiling == nil {
		return ""
	}
	return number(*f.Ceiling, f.Unit)
}

func (f Figure) ratio() string {
	if f.Ratio == nil {
		return ""
	}
	return strconv.FormatFloat(*f.Ratio, 'f', 2, 64)
}

// number writes a value with its unit: rates whole, with commas.
func number(value float64, unit string) string {
	if unit == perSecond {
		return commas(int64(value+0.5)) + unit
	}
	return strconv.FormatFloat(value, 'f', 1, 64) + " " + unit
}

// commas writes a number in groups of three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
