package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

const (
	slowest    = 10       // tests that the report lists
	keptOutput = 64 << 10 // bytes of a test's output that are kept; the rest is dropped
)

// event is an event of go test: see `go doc test2json`.
type event struct {
	Action  string
	Package string
	Test    string  // empty: the event is about the package
	Elapsed float64 // seconds, of an end
	Output  string
}

// name identifies a test in a run, or a package if test is empty.
type name struct{ run, pkg, test string }

func (n name) String() string {
	text := strings.TrimRight(n.pkg+" "+n.test, " ")
	if n.run != "" {
		text += " (" + n.run + ")"
	}
	return text
}

// pkgName returns the name of the test's package.
func (n name) pkgName() name { return name{n.run, n.pkg, ""} }

// attempt is one run of a test, or of a package's tests.
type attempt struct {
	result  string // pass, fail or skip; empty until it ends
	elapsed time.Duration
	output  strings.Builder
}

// report collects the attempts of all tests.
type report struct {
	attempts map[name][]*attempt // in the order of time
	failed   map[name]int        // failed tests of each package's current attempt
	reasons  []string            // why the run is red, apart from what the attempts show
}

func newReport() *report {
	return &report{attempts: map[name][]*attempt{}, failed: map[name]int{}}
}

// read adds the events of a run. It ignores lines that are no events, such as the output of a build.
func (r *report) read(run string, events io.Reader) error {
	lines := bufio.NewReader(events)
	for {
		line, err := lines.ReadBytes('\n')
		var e event
		if bytes.HasPrefix(line, []byte{'{'}) && json.Unmarshal(line, &e) == nil {
			r.add(run, e)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) add(run string, e event) {
	n := name{run, e.Package, e.Test}
	switch e.Action {
	case "start", "run":
		r.attempts[n] = append(r.attempts[n], &attempt{})
		if e.Test == "" {
			r.failed[n] = 0
		}
	case "output":
		if a := r.current(n); a.output.Len() < keptOutput {
			a.output.WriteString(e.Output)
		}
	case "build-fail":
		r.reasons = append(r.reasons, "build failed")
	case "pass", "fail", "skip":
		a := r.current(n)
		a.result, a.elapsed = e.Action, time.Duration(e.Elapsed*float64(time.Second))
		if e.Action == "fail" {
			r.fail(n)
		}
	}
}

// current returns the attempt that runs. Events of a package may come without a start: the package has no tests then.
func (r *report) current(n name) *attempt {
	if len(r.attempts[n]) == 0 {
		r.attempts[n] = []*attempt{{}}
	}
	return r.attempts[n][len(r.attempts[n])-1]
}

// fail counts a failed test, and notices a package that failed without one.
func (r *report) fail(n name) {
	if n.test != "" {
		r.failed[n.pkgName()]++
	} else if r.failed[n] == 0 {
		r.reasons = append(r.reasons,
			fmt.Sprintf("%s failed without a failed test:\n%s", n, r.current(n).output.String()))
	}
}

// faults are the words of failures that no repetition may excuse.
var faults = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "SIGSEGV"}

// print prints the report. It returns an error if the run is red.
func (r *report) print(out io.Writer) error {
	names, passed, flaky := r.sorted(), 0, 0
	r.printSlowest(out, names)
	for _, n := range names {
		all := r.attempts[n]
		last := all[len(all)-1]
		switch {
		case last.result == "":
			r.reasons = append(r.reasons, fmt.Sprintf("%s has not ended:\n%s", n, last.output.String()))
		case n.test == "":
		case last.result == "skip":
			r.reasons = append(r.reasons, fmt.Sprintf("%s was skipped", n))
		case last.result == "fail":
			r.reasons = append(r.reasons, fmt.Sprintf("%s failed:\n%s", n, last.output.String()))
		default:
			passed++
		}
		first := firstFailure(all)
		if n.test == "" || first == nil {
			continue
		}
		output := first.output.String()
		for _, fault := range faults {
			if strings.Contains(output, fault) {
				r.reasons = append(r.reasons, fmt.Sprintf("%s shows %q:\n%s", n, fault, output))
				break
			}
		}
		if last.result == "pass" {
			flaky++
			fmt.Fprintf(out, "FLAKY %s\n%s", n, output)
		}
	}
	if passed == 0 {
		r.reasons = append(r.reasons, "no test was run")
	}
	if len(r.reasons) > 0 {
		return fmt.Errorf("the tests are red:\n%s", strings.Join(r.reasons, "\n"))
	}
	_, err := fmt.Fprintf(out, "flaky: %d\n%d passed, 0 failed, 0 skipped\n", flaky, passed)
	return err
}

// sorted returns the names of all tests and packages.
func (r *report) sorted() []name {
	names := make([]name, 0, len(r.attempts))
	for n := range r.attempts {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b name) int { return strings.Compare(a.String(), b.String()) })
	return names
}

// printSlowest prints the slowest tests. It leaves out tests with subtests of their own, whose time is the time of
// those.
func (r *report) printSlowest(out io.Writer, names []name) {
	parents := map[name]bool{}
	for _, n := range names {
		if i := strings.LastIndexByte(n.test, '/'); i >= 0 {
			parents[name{n.run, n.pkg, n.test[:i]}] = true
		}
	}
	names = slices.DeleteFunc(slices.Clone(names), func(n name) bool { return n.test == "" || parents[n] })
	slices.SortStableFunc(names,
		func(a, b name) int { return int(r.attempts[b][0].elapsed - r.attempts[a][0].elapsed) })
	for _, n := range names[:min(slowest, len(names))] {
		fmt.Fprintf(out, "%8.1f s  %s\n", r.attempts[n][0].elapsed.Seconds(), n)
	}
}

// firstFailure returns the first failed attempt, nil if none failed.
func firstFailure(all []*attempt) *attempt {
	for _, a := range all {
		if a.result == "fail" {
			return a
		}
	}
	return nil
}
