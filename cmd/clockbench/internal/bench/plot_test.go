package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// plotted returns a report with generated bursts. Their lateness has a log-normal distribution around typical.
func plotted(database string, typical time.Duration, pending, alarms []int) *Report {
	random := rand.New(rand.NewPCG(1, 2))
	r := &Report{
		Version: "1.2.3 (0123456789ab)", Started: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC), Host: Host{Cores: 2},
		Database: database, Target: "RabbitMQ 3.10.8, quorum queue",
	}
	for _, others := range pending {
		for _, n := range alarms {
			for _, killed := range []bool{false, n > 1}[:min(n, 2)] {
				late := make([]time.Duration, max(n/10, 200))
				for i := range late {
					late[i] = time.Duration(float64(typical) * float64(n+100) / 100 * math.Exp(random.NormFloat64()/2))
					if killed && i%4 == 0 {
						late[i] += time.Duration(random.IntN(2000)) * time.Millisecond
					}
				}
				r.Distribution = append(r.Distribution,
					Burst{Pending: others, Alarms: n, Killed: killed, Lateness: histogramOf(late)})
			}
		}
	}
	return r
}

var (
	plotPending = []int{10_000, 1_000_000, 10_000_000}
	plotAlarms  = []int{1, 10_000, 100_000}
)

func TestPlotDrawsTheGoldenPictures(t *testing.T) {
	mariadb := plotted("10.11.19-MariaDB-0+deb12u1", 2*time.Millisecond, plotPending, plotAlarms)
	postgresql := plotted("PostgreSQL 15.20 (Debian 15.20-0+deb12u1)", time.Millisecond, plotPending[:2],
		plotAlarms[1:])
	sqlite := plotted("SQLite <3.53.4> & more", 0, plotPending[1:], plotAlarms[:2])
	sqlite.Target, sqlite.Version = "stream", "1.2.4"
	for _, test := range []struct {
		name    string
		reports []*Report
	}{
		{"one", []*Report{plotted("10.11.19-MariaDB-0+deb12u1", 2*time.Millisecond, plotPending[:1], plotAlarms[:2])}},
		{"many", []*Report{mariadb, postgresql, sqlite}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got bytes.Buffer
			if err := Plot(&got, test.reports...); err != nil {
				t.Fatal(err)
			}
			expectXML(t, got.Bytes())
			expectLines(t, got.String(), test.reports)
			expectGolden(t, filepath.Join("testdata", "plot_"+test.name+".svg"), got.Bytes())
		})
	}
}

func expectXML(t *testing.T, text []byte) {
	t.Helper()
	in := xml.NewDecoder(bytes.NewReader(text))
	for {
		if _, err := in.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

var (
	plotPath  = regexp.MustCompile(`<path class="line[^"]*" d="(M[^"]*)"/><circle`)
	plotPoint = regexp.MustCompile(`[ML]([^ LM]+) ([^ LM]+)`)
)

// expectLines expects a line for each burst, from left to right, never falling, and inside the picture.
func expectLines(t *testing.T, svg string, reports []*Report) {
	t.Helper()
	want := 0
	for _, r := range reports {
		want += len(r.Distribution)
	}
	paths := plotPath.FindAllStringSubmatch(svg, -1)
	if len(paths) != want {
		t.Errorf("%d lines, want %d", len(paths), want)
	}
	for _, path := range paths {
		lastX, lastY := 0.0, math.Inf(1)
		for _, p := range plotPoint.FindAllStringSubmatch(path[1], -1) {
			x, errX := strconv.ParseFloat(p[1], 64)
			y, errY := strconv.ParseFloat(p[2], 64)
			if errX != nil || errY != nil || !(x > lastX) || !(y <= lastY) || !(y > 0) {
				t.Errorf("%s comes after %g %g", p[0], lastX, lastY)
			}
			lastX, lastY = x, y
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error("a coordinate is not a number")
	}
}

// expectGolden compares got with a file. -update rewrites the file; look at it before you commit it.
func expectGolden(t *testing.T, name string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(name, got, 0o644); err != nil { //nolint:gosec // a picture is no secret
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs; look at the picture that -update writes", name)
	}
}

func TestPlotRefusesReportsThatItCannotDraw(t *testing.T) {
	some := plotted("SQLite", time.Millisecond, plotPending[:1], plotAlarms[:1])
	for _, test := range []struct {
		name    string
		reports []*Report
		want    error
	}{
		{"no report", nil, errNoDistribution},
		{"no distribution", []*Report{{}, {}}, errNoDistribution},
		{"too many", []*Report{some, some, some, some, some}, errManyReports},
		{"no rings", []*Report{{Distribution: []Burst{{Pending: 1, Alarms: 1}}}}, nil},
	} {
		if err := Plot(io.Discard, test.reports...); !errors.Is(err, test.want) {
			t.Errorf("%s: error %v, want %v", test.name, err, test.want)
		}
	}
}
