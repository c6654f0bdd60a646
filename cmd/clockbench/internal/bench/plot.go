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

// plotColours are CSS classes. The template gives each a colour.
var plotColours = []string{"a", "b", "c", "d"}

var (
	errNoDistribution = errors.New("nothing to plot: no report has a distribution; it is measured with --only distribution")
	errManyReports    = fmt.Errorf("at most %d reports can be distinguished in one plot", len(plotColours))
)

// Measures of the plot, in pixels.
const (
	plotWidth   = 860 // minimum, which the texts above the panels need
	panelWidth  = 260 // minimum
	panelHeight = 170
	panelAside  = 32 // horizontal space between panels
	panelBelow  = 18 // vertical space between panels
	marginLeft  = 76
	marginRight = 34
	marginBelow = 52
	lineHeight  = 20
	keyWidth    = 34
)

// axisMax is the position of the maximum on the axis of percentiles, beyond the last named percentile.
const axisMax = 4.6

// percentileTicks are the named percentiles of the axis.
var percentileTicks = []struct {
	share float64
	text  string
}{{0.5, "50"}, {0.9, "90"}, {0.99, "99"}, {0.999, "99.9"}, {0.9999, "99.99"}}

// tail returns the position of a percentile on its axis. 90, 99, 99.9 and so on have equal distances.
func tail(share float64) float64 { return -math.Log10(1 - share) }

// px is a length in pixels, written with one decimal.
type px float64

// String returns the length in SVG's notation.
func (p px) String() string { return strconv.FormatFloat(math.Round(float64(p)*10)/10, 'f', -1, 64) }

// plot is the data of the template.
type plot struct {
	Width, Height px
	Title         string
	Panels        []panel
	Lines         []plotLine
	Labels        []label

	columns, rows []int // the numbers of pending alarms; the sizes of bursts
	killed        bool  // whether a node was killed in at least one burst
	top           px    // top of the first row
	lateness      axis  // axis of every panel; positioned for the first row
}

// panel is the frame for one number of pending alarms and one burst size.
type panel struct {
	X, Y, Width, Height px
	Grid                string
}

// plotLine is a line. If End is not nil, it has a dot there.
type plotLine struct {
	Class, Path string
	Killed      bool
	End         *point
}

type point struct{ X, Y px }

type label struct {
	X, Y                px
	Class, Anchor, Text string
	Turn                int // rotation in degrees
}

// axis maps values from..to to positions start..end.
type axis struct {
	from, to   float64
	start, end px
}

func (a axis) position(value float64) px {
	share := (min(max(value, a.from), a.to) - a.from) / (a.to - a.from)
	return a.start + px(share)*(a.end-a.start)
}

// Plot draws the distributions of the reports as SVG. It has a panel for each number of pending alarms and each burst
// size. A panel has a line for each report; the line is dashed if a node was killed.
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

// scan finds the panels and the range of the axis of lateness.
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

// layOut positions the panels below the texts.
func (p *plot) layOut() {
	columns, rows := px(len(p.columns)), px(len(p.rows))
	p.Width = max(plotWidth, marginLeft+columns*(panelWidth+panelAside)-panelAside+marginRight)
	p.Height = p.top + rows*(panelHeight+panelBelow) - panelBelow + marginBelow
	p.lateness.start, p.lateness.end = p.top+panelHeight, p.top
}

// logMillis returns the logarithm of a duration in milliseconds. A duration below 10 us counts as 10 us.
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

// frame makes the panels with their grids, and the texts at their axes.
func (p *plot) frame() {
	for column := range p.columns {
		for row := range p.rows {
			x, y := p.cell(column, row)
			p.Panels = append(p.Panels,
				panel{X: x.start, Y: y.end, Width: x.end - x.start, Height: panelHeight, Grid: grid(x, y)})
		}
	}
	for column, pending := range p.columns {
		x, y := p.cell(column, len(p.rows)-1)
		p.label("head", "middle", (x.start+x.end)/2, p.top-9, commas(int64(pending))+" pending")
		for _, tick := range percentileTicks {
			p.label("tick", "middle", x.position(tail(tick.share)), y.start+16, tick.text)
		}
		p.label("tick", "middle", x.end, y.start+16, "max")
	}
	for row, alarms := range p.rows {
		_, y := p.cell(0, row)
		p.turned(90, "head", p.Width-marginRight+10, (y.start+y.end)/2, burstName(alarms))
		for _, decade := range decades(y) {
			p.label("tick", "end", marginLeft-7, y.position(decade)+4, decadeText(decade))
		}
	}
	p.label("soft", "middle", (marginLeft+p.Width-marginRight)/2, p.Height-14, "percentile of the alarms, %")
	p.turned(-90, "soft", 18, (p.top+p.Height-marginBelow)/2, "lateness, ms")
}

// grid returns the path of the lines at all ticks.
func grid(x, y axis) string {
	var b strings.Builder
	for _, tick := range percentileTicks[1:] {
		fmt.Fprintf(&b, "M%v %vV%v", x.position(tail(tick.share)), y.start, y.end)
	}
	for _, decade := range decades(y) {
		fmt.Fprintf(&b, "M%v %vH%v", x.start, y.position(decade), x.end)
	}
	return b.String()
}

// decades returns the powers of ten on an axis.
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

// percentileStep is the distance between the points of a line, on the axis of percentiles.
const percentileStep = 0.05

// draw adds the line of a burst in a colour.
func (p *plot) draw(colour string, b *Burst) {
	column, _ := slices.BinarySearch(p.columns, b.Pending)
	row, _ := slices.BinarySearch(p.rows, b.Alarms)
	x, y := p.cell(column, row)
	var path strings.Builder
	step := "M"
	add := func(at float64, late time.Duration) point {
		to := point{X: x.position(at), Y: y.position(logMillis(late))}
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

// write writes the texts above the panels: the title, the properties that all reports share, and the key.
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

// key adds a sample line with its meaning.
func (p *plot) key(l plotLine, y px, text string) {
	l.Path = fmt.Sprintf("M%v %vh%v", px(marginLeft), y-4, px(keyWidth))
	p.Lines = append(p.Lines, l)
	p.label("key", "", marginLeft+keyWidth+8, y, text)
}

func (p *plot) label(class, anchor string, x, y px, text string) {
	p.Labels = append(p.Labels, label{X: x, Y: y, Class: class, Anchor: anchor, Text: text})
}

// turned adds a label centred at x and y, rotated by degrees.
func (p *plot) turned(degrees int, class string, x, y px, text string) {
	p.Labels = append(p.Labels, label{X: x, Y: y, Class: class, Anchor: "middle", Text: text, Turn: degrees})
}

// origin describes the measured clockd, the machine and the date.
func (r *Report) origin() string {
	return fmt.Sprintf("clockd %s, %d cores, %s", r.Version, r.Host.Cores, r.Started.Format(time.DateOnly))
}

// engines returns the database and the target, without the suffix that a Linux distribution adds to a version.
func (r *Report) engines() string {
	database, _, _ := strings.Cut(r.Database, " (")
	if version, _, is := strings.Cut(database, "-MariaDB"); is {
		database = "MariaDB " + version
	}
	return database + ", " + r.Target
}
