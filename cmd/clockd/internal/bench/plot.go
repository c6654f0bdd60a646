package bench

import (
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"time"
)

//go:embed plot.svg.tmpl
var plotText string

var plotTemplate = template.Must(template.New("plot").Parse(plotText))

// plotColours are the classes that the template gives a colour each.
var plotColours = []string{"a", "b", "c", "d"}

var (
	errNoDistribution = errors.New("nothing to plot: no report has a distribution; it is measured with --only distribution")
	errManyReports    = fmt.Errorf("at most %d reports can be told apart in one plot", len(plotColours))
)

// Measures of the plot, in pixels.
const (
	plotWidth   = 860 // at least: the texts above need it
	panelWidth  = 260 // at least
	panelHeight = 170
	panelAside  = 32 // between panels, from left to right
	panelBelow  = 18 // and from top to bottom
	marginLeft  = 76
	marginRight = 34
	marginBelow = 52
	lineHeight  = 20
	keyWidth    = 34
)

// axisMax is where the axis of percentiles has the maximum, beyond the last percentile that it names.
const axisMax = 4.6

// percentileTicks are the percentiles that the axis names.
var percentileTicks = []struct {
	share float64
	text  string
}{{0.5, "50"}, {0.9, "90"}, {0.99, "99"}, {0.999, "99.9"}, {0.9999, "99.99"}}

// tail places a percentile: each of 90, 99, 99.9 is as far from the one before.
func tail(share float64) float64 { return -math.Log10(1 - share) }

// px is a length on paper, written to a tenth.
type px float64

// String returns the length as SVG has it.
func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

// plot is what the template draws.
type plot struct {
	Width, Height px
	Title         string
	Panels        []panel
	Lines         []plotLine
	Labels        []label

	columns, rows []int // pending alarms, alarms of a burst
	killed        bool  // in one of the bursts at least
	top           px    // of the first row
	lateness      axis  // of every panel; its place is the first row's
}

// panel is the frame of one number of pending alarms and one burst.
type panel struct {
	X, Y, Width, Height px
	Grid                string
}

// plotLine is a line with a dot at its end, if it has an end.
type plotLine struct {
	Class, Path string
	Killed      bool
	End         *point
}

type point struct{ X, Y px }

type label struct {
	X, Y                px
	Class, Anchor, Text string
	Turn                int // degrees
}

// axis places what is from..to on start..end.
type axis struct {
	from, to   float64
	start, end px
}

func (a axis) at(value float64) px {
	share := (min(max(value, a.from), a.to) - a.from) / (a.to - a.from)
	return a.start + px(share)*(a.end-a.start)
}

// Plot draws the distributions of the reports as SVG: a panel for each number of pending alarms and each burst, a line in it for
// each report, a dashed one where a node was killed.
func Plot(out io.Writer, reports ...*Report) error {
	if len(reports) > len(plotColours) {
		return errManyReports
	}
	p := &plot{Title: "How late alarms ring, at the consumer"}
	p.scan(reports)
	if len(p.columns) == 0 {
		return errNoDistribution
	}
	p.write(reports)
	p.layOut()
	p.frame()
	for i, r := range reports {
		for j := range r.Distribution {
			p.draw(plotColours[i], &r.Distribution[j])
		}
	}
	return plotTemplate.Execute(out, p)
}

// scan finds which panels there are and what the axis of lateness has to hold.
func (p *plot) scan(reports []*Report) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, r := range reports {
		for i := range r.Distribution {
			b := &r.Distribution[i]
			p.columns, p.rows = append(p.columns, b.Pending), append(p.rows, b.Alarms)
			low, high = min(low, logMillis(b.Lateness.percentile(0.5))), max(high, logMillis(b.Lateness.percentile(1)))
			p.killed = p.killed || b.Killed
		}
	}
	for _, numbers := range []*[]int{&p.columns, &p.rows} {
		slices.Sort(*numbers)
		*numbers = slices.Compact(*numbers)
	}
	low = math.Floor(low)
	p.lateness = axis{from: low, to: max(math.Ceil(high), low+1)}
}

// layOut places the panels below what is written.
func (p *plot) layOut() {
	columns, rows := px(len(p.columns)), px(len(p.rows))
	p.Width = max(plotWidth, marginLeft+columns*(panelWidth+panelAside)-panelAside+marginRight)
	p.Height = p.top + rows*(panelHeight+panelBelow) - panelBelow + marginBelow
	p.lateness.start, p.lateness.end = p.top+panelHeight, p.top
}

// logMillis returns the logarithm of a duration in milliseconds; what is shorter than 10 us counts as that.
func logMillis(d time.Duration) float64 { return math.Log10(max(ms(d), 0.01)) }

// cell returns the axes of a panel.
func (p *plot) cell(column, row int) (percentiles, lateness axis) {
	width := (p.Width - marginLeft - marginRight - px(len(p.columns)-1)*panelAside) / px(len(p.columns))
	left, down := marginLeft+px(column)*(width+panelAside), px(row)*(panelHeight+panelBelow)
	lateness = p.lateness
	lateness.start += down
	lateness.end += down
	return axis{from: tail(percentileTicks[0].share), to: axisMax, start: left, end: left + width}, lateness
}

// frame makes the panels, with grids, and what is written at their axes.
func (p *plot) frame() {
	for column := range p.columns {
		for row := range p.rows {
			x, y := p.cell(column, row)
			p.Panels = append(p.Panels, panel{X: x.start, Y: y.end, Width: x.end - x.start, Height: panelHeight, Grid: grid(x, y)})
		}
	}
	for column, pending := range p.columns {
		x, y := p.cell(column, len(p.rows)-1)
		p.label("head", "middle", (x.start+x.end)/2, p.top-9, commas(int64(pending))+" pending")
		for _, tick := range percentileTicks {
			p.label("tick", "middle", x.at(tail(tick.share)), y.start+16, tick.text)
		}
		p.label("tick", "middle", x.end, y.start+16, "max")
	}
	for row, alarms := range p.rows {
		_, y := p.cell(0, row)
		p.turned(90, "head", p.Width-marginRight+10, (y.start+y.end)/2, burstName(alarms))
		for _, decade := range decades(y) {
			p.label("tick", "end", marginLeft-7, y.at(decade)+4, decadeText(decade))
		}
	}
	p.label("soft", "middle", (marginLeft+p.Width-marginRight)/2, p.Height-14, "percentile of the alarms, %")
	p.turned(-90, "soft", 18, (p.top+p.Height-marginBelow)/2, "lateness, ms")
}

// grid returns the path of lines at all ticks.
func grid(x, y axis) string {
	var b strings.Builder
	for _, tick := range percentileTicks[1:] {
		fmt.Fprintf(&b, "M%v %vV%v", x.at(tail(tick.share)), y.start, y.end)
	}
	for _, decade := range decades(y) {
		fmt.Fprintf(&b, "M%v %vH%v", x.start, y.at(decade), x.end)
	}
	return b.String()
}

// decades returns the powers of ten that an axis has.
func decades(a axis) (all []float64) {
	for decade := a.from; decade <= a.to; decade++ {
		all = append(all, decade)
	}
	return all
}

func decadeText(decade float64) string {
	if decade < 0 {
		return strconv.FormatFloat(math.Pow(10, decade), 'f', -int(decade), 64)
	}
	return commas(int64(math.Pow(10, decade)))
}

// percentileStep is how far apart the points of a line are, on the axis of percentiles.
const percentileStep = 0.05

// draw adds the line of a burst.
func (p *plot) draw(colour string, b *Burst) {
	column, _ := slices.BinarySearch(p.columns, b.Pending)
	row, _ := slices.BinarySearch(p.rows, b.Alarms)
	x, y := p.cell(column, row)
	var path strings.Builder
	step := "M"
	add := func(at float64, late time.Duration) point {
		to := point{X: x.at(at), Y: y.at(logMillis(late))}
		fmt.Fprintf(&path, "%s%v %v", step, to.X, to.Y)
		step = "L"
		return to
	}
	last := tail(percentileTicks[len(percentileTicks)-1].share)
	for at := x.from; at < last; at += percentileStep {
		add(at, b.Lateness.percentile(1-math.Pow(10, -at)))
	}
	add(last, b.Lateness.percentile(percentileTicks[len(percentileTicks)-1].share))
	end := add(axisMax, b.Lateness.percentile(1))
	p.Lines = append(p.Lines, plotLine{Class: colour, Killed: b.Killed, Path: path.String(), End: &end})
}

// write writes what is above the panels: title, what is the same of all reports, and the key.
func (p *plot) write(reports []*Report) {
	y := px(30)
	p.label("heading", "", marginLeft, y, p.Title)
	about := reports[0].origin()
	same := !slices.ContainsFunc(reports, func(r *Report) bool { return r.origin() != about })
	if same {
		y += lineHeight
		p.label("soft", "", marginLeft, y, about)
	}
	y += 4
	for i, r := range reports {
		y += lineHeight
		text := r.engines()
		if !same {
			text += "; " + r.origin()
		}
		p.key(plotLine{Class: plotColours[i]}, y, text)
	}
	if p.killed {
		y += lineHeight
		p.key(plotLine{Class: "any", Killed: true}, y, "one of two nodes is killed in the midst")
	}
	p.top = y + 38
}

// key adds a line with what it stands for.
func (p *plot) key(l plotLine, y px, text string) {
	l.Path = fmt.Sprintf("M%v %vh%v", px(marginLeft), y-4, px(keyWidth))
	p.Lines = append(p.Lines, l)
	p.label("key", "", marginLeft+keyWidth+8, y, text)
}

func (p *plot) label(class, anchor string, x, y px, text string) {
	p.Labels = append(p.Labels, label{X: x, Y: y, Class: class, Anchor: anchor, Text: text})
}

// turned adds a label whose middle is there, turned by so many degrees.
func (p *plot) turned(by int, class string, x, y px, text string) {
	p.Labels = append(p.Labels, label{X: x, Y: y, Class: class, Anchor: "middle", Text: text, Turn: by})
}

// origin returns what was measured where and when.
func (r *Report) origin() string {
	return fmt.Sprintf("clockd %s, %d cores, %s", r.Version, r.Host.Cores, r.Started.Format(time.DateOnly))
}

// engines returns the database and the target, without what a distribution adds to their versions.
func (r *Report) engines() string {
	database, _, _ := strings.Cut(r.Database, " (")
	if version, _, is := strings.Cut(database, "-MariaDB"); is {
		database = "MariaDB " + version
	}
	return database + ", " + r.Target
}
