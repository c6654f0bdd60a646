package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// Report holds all results of a bench.
type Report struct {
	Version  string    `json:"version"` // version of the measured clockd
	Started  time.Time `json:"started"`
	Seconds  float64   `json:"seconds"`
	Host     Host      `json:"host"`
	Load     [2]string `json:"load"` // load average of the machine before and after
	Database string    `json:"database"`
	Target   string    `json:"target"`
	Plan     Plan      `json:"plan"`
	Figures  []Figure  `json:"figures"`
	Rings    []Rings   `json:"rings"`
	Costs    []Cost    `json:"costs,omitempty"`

	Distribution []Burst `json:"distribution,omitempty"`
}

// Plan holds the numbers of the configuration that determine the results.
type Plan struct {
	Sets    int     `json:"sets"`
	Singles int     `json:"singles"`
	Herd    int     `json:"herd"`
	Rounds  int     `json:"rounds"`
	Rate    int     `json:"rate"`
	Seconds float64 `json:"seconds"` // duration of the lateness stage
	Crowd   int     `json:"crowd"`
	Pending int     `json:"pending"`
	Overdue int     `json:"overdue"`

	DistributionPending []int `json:"distribution_pending,omitempty"`
}

// Figure is one result. Its ceiling, if any, is the best that bare code reached on the same machine.
type Figure struct {
	Stage       string   `json:"stage"`
	What        string   `json:"what"`
	Unit        string   `json:"unit"`
	Value       float64  `json:"value"`
	CeilingWhat string   `json:"ceiling_what,omitempty"`
	Ceiling     *float64 `json:"ceiling,omitempty"`
	Ratio       *float64 `json:"ratio,omitempty"`           // value divided by ceiling
	Samples     samples  `json:"samples,omitempty"`         // results of the rounds; the value is their median
	Ceilings    samples  `json:"ceiling_samples,omitempty"` // results of the ceiling's rounds
	Target      string   `json:"target,omitempty"`
	Verdict     string   `json:"verdict,omitempty"` // met or missed; empty without a target
}

// Units.
const (
	perSecond = "/s"
	millis    = "ms"
	mebibytes = "MiB"
	micros    = "us"
	percent   = "%"
	seconds   = "s"
)

// The verdicts.
const (
	verdictMet    = "met"
	verdictMissed = "missed"
)

// figureOf returns a figure with the median of the rounds as its value.
func figureOf(what, unit string, rounds samples) Figure {
	return Figure{What: what, Unit: unit, Value: rounds.median(), Samples: rounds}
}

// besideAll returns the figure with a ceiling: the median of the ceiling's rounds.
func (f Figure) besideAll(what string, rounds samples) Figure {
	f.Ceilings = rounds
	return f.beside(what, rounds.median())
}

// beside returns the figure with a ceiling and the ratio to it.
func (f Figure) beside(what string, ceiling float64) Figure {
	f.CeilingWhat, f.Ceiling = what, &ceiling
	if ceiling > 0 {
		ratio := f.Value / ceiling
		f.Ratio = &ratio
	}
	return f
}

// ratioAtLeast returns the figure with a verdict: met if the ratio is at least the target.
func (f Figure) ratioAtLeast(target float64) Figure {
	return f.judged(fmt.Sprintf("ratio >= %g", target), f.Ratio != nil && *f.Ratio >= target)
}

// ratioAtMost returns the figure with a verdict: met if the ratio is at most the target. Without a ratio there is no
// verdict.
func (f Figure) ratioAtMost(target float64) Figure {
	if f.Ratio == nil {
		return f
	}
	return f.judged(fmt.Sprintf("ratio <= %g", target), *f.Ratio <= target)
}

// besideFigure returns the figure with another figure as its ceiling.
func (f Figure) besideFigure(other Figure) Figure {
	f.Ceilings = other.Samples
	return f.beside(other.What, other.Value)
}

// atMost returns the figure with a verdict: met if the value is at most the target. A value of 0 was not reported, and
// gets no verdict.
func (f Figure) atMost(target float64) Figure {
	if f.Value == 0 {
		return f
	}
	return f.judged(strings.TrimSpace(fmt.Sprintf("<= %g %s", target, f.Unit)), f.Value <= target)
}

func (f Figure) judged(target string, met bool) Figure {
	f.Target, f.Verdict = target, verdictMissed
	if met {
		f.Verdict = verdictMet
	}
	return f
}

// rate returns n per second; 0 if no time passed.
func rate(n int, took time.Duration) float64 {
	if took <= 0 {
		return 0
	}
	return float64(n) / took.Seconds()
}

// ms returns a duration in milliseconds.
func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// each returns the microseconds for each of n.
func each(n int, took time.Duration) float64 { return float64(took.Microseconds()) / float64(n) }

// mib returns bytes in MiB.
func mib(bytes int64) float64 { return float64(bytes) / (1 << 20) }

// Bad returns an error if rings were lost, early or wrong. The bench has then failed, whatever its speed.
func (r *Report) Bad() error {
	for _, c := range r.Rings {
		if c.Lost+c.Early+c.Wrong+c.Foreign+c.Again > 0 {
			return fmt.Errorf("%s: of %d rings %d were lost, %d early, %d had a wrong payload, %d were of unknown alarms, %d came again under another message id",
				c.Stage, c.Expected, c.Lost, c.Early, c.Wrong, c.Foreign, c.Again)
		}
	}
	return nil
}

// ReadReport reads the JSON of a report from a file.
func ReadReport(path string) (*Report, error) {
	text, err := os.ReadFile(path) //nolint:gosec // the user names the file
	if err != nil {
		return nil, err
	}
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if r.Version == "" {
		return nil, fmt.Errorf("%s is not the JSON of a bench", path)
	}
	return &r, nil
}

// Write prints the report for people.
func (r *Report) Write(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(format string, args ...any) { _, _ = fmt.Fprintf(table, format, args...) } // Flush returns the error
	line("clockd %s, %s, %s\n", r.Version, r.Database, r.Target)
	line("%d cores (%s), load %s before and %s after, %.0f s\n\n", r.Host.Cores, r.Host.CPU, r.Load[0], r.Load[1],
		r.Seconds)
	line("WHAT\tFIGURE\tCEILING\tOF\tRATIO\tTARGET\tVERDICT\n")
	for i := range r.Figures {
		f := r.Figures[i]
		line("%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.What, number(f.Value, f.Unit), f.ceiling(), f.CeilingWhat, f.ratio(),
			f.Target, f.Verdict)
	}
	line("\nRINGS\tEXPECTED\tRUNG\tLOST\tEARLY\tDUPLICATES\tAGAIN\tWRONG\tFOREIGN\n")
	for _, c := range r.Rings {
		line("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", c.Stage, c.Expected, c.Rung, c.Lost, c.Early, c.Duplicates,
			c.Again, c.Wrong, c.Foreign)
	}
	if len(r.Costs) > 0 {
		writeCosts(line, r.Costs)
	}
	return table.Flush()
}

// writeCosts prints a line for each cost.
func writeCosts(line func(format string, args ...any), costs []Cost) {
	line("\nWHAT ONE TAKES\tOF")
	for c := range shownColumns {
		line("\t%s", strings.ToUpper(columnText(c)))
	}
	line("\n")
	for _, c := range costs {
		line("%s\t%s", c.What, commas(int64(c.Alarms)))
		for col := range shownColumns {
			line("\t%s", c.text(col))
		}
		line("\n")
	}
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

// number formats a value with its unit. Rates are whole numbers with commas; seconds and percentages have two decimals,
// other units one.
func number(value float64, unit string) string {
	if unit == perSecond {
		return commas(int64(value+0.5)) + unit
	}
	if unit == "" {
		return count(value)
	}
	digits := 1
	if unit == seconds || unit == percent {
		digits = 2
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + unit
}

// count formats a cost. Numbers below 10 have three decimals.
func count(n float64) string {
	switch {
	case n < 10:
		return strconv.FormatFloat(n, 'f', 3, 64)
	case n < 100:
		return strconv.FormatFloat(n, 'f', 1, 64)
	default:
		return commas(int64(n + 0.5))
	}
}

// commas formats a number in groups of three digits.
func commas(n int64) string {
	s := strconv.FormatInt(n, 10)
	for at := len(s) - 3; at > 0 && s[at-1] != '-'; at -= 3 {
		s = s[:at] + "," + s[at:]
	}
	return s
}
