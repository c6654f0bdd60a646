package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

const (
	slowest = 10       // tests that the report lists
	kept    = 32 << 10 // bytes that are kept of the begin of a test's output, and of its end
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
	result     string // pass, fail or skip; empty until it ends
	elapsed    time.Duration
	begin, end []byte // of its output
	fault      string // the first line of its output that shows a fault; empty: none does
}

// write adds output.
func (a *attempt) write(output string) {
	for line := range strings.Lines(output) {
		if a.fault == "" && showsFault(line) {
			a.fault = strings.TrimSpace(line)
		}
	}
	free := min(len(output), kept-len(a.begin))
	a.begin, a.end = append(a.begin, output[:free]...), append(a.end, output[free:]...)
	if len(a.end) > 2*kept {
		a.end = append([]byte(nil), a.end[len(a.end)-kept:]...)
	}
}

// output returns the begin and the end of the output.
func (a *attempt) output() string {
	if len(a.end) <= kept {
		return string(a.begin) + string(a.end)
	}
	return string(a.begin) + "\n[...]\n" + string(a.end[len(a.end)-kept:])
}

// faults are the beginnings of lines that show a failure that no repetition may excuse. The log of a process may be
// indented.
var faults = []string{"WARNING: DATA RACE", "panic: ", "fatal error: ", "SIGSEGV", "[signal SIG", "*** Test killed"}

// showsFault reports whether the line shows a data race, a panic, a fatal error of the runtime or a hang. The log of a
// server names a panic that it has recovered from as an error.
func showsFault(line string) bool {
	line = strings.TrimSpace(line)
	begins := func(fault string) bool { return strings.HasPrefix(line, fault) }
	return slices.ContainsFunc(faults, begins) || strings.Contains(line, `="panic: `) ||
		strings.Contains(line, `:"panic: `)
}

// report collects the attempts of all tests.
type report struct {
	attempts map[name][]*attempt // in the order of time
	failed   map[name]int        // failed tests of each package's current attempt
	begun    map[name]int        // tests that began, by package
	reasons  []string            // why the run is red, apart from what the attempts show
}

func newReport() *report {
	return &report{attempts: map[name][]*attempt{}, failed: map[name]int{}, begun: map[name]int{}}
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
		} else {
			r.begun[n.pkgName()]++
		}
	case "output":
		r.current(n).write(e.Output)
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
			fmt.Sprintf("%s failed without a failed test:\n%s", n, r.current(n).output()))
	}
}

// print prints the report. It returns an error if the run is red.
func (r *report) print(out io.Writer) error {
	names, passed, flaky := r.sorted(), 0, 0
	r.printSlowest(out, names)
	for _, n := range names {
		all := r.attempts[n]
		last := all[len(all)-1]
		for _, a := range all {
			switch {
			case a.result == "":
				r.red("%s has not ended:\n%s", n, a.output())
			case a.result == "fail" && a.fault != "":
				r.red("%s shows %q:\n%s", n, a.fault, a.output())
			}
		}
		switch {
		case n.test == "" && last.result == "pass" && r.begun[n] == 0:
			r.red("%s passed without a test:\n%s", n, last.output())
		case n.test == "":
		case last.result == "skip":
			r.red("%s was skipped", n)
		case last.result == "fail":
			r.red("%s failed:\n%s", n, last.output())
		case last.result == "pass":
			passed++
			if first := firstFailure(all); first != nil {
				flaky++
				fmt.Fprintf(out, "FLAKY %s\n%s", n, first.output())
			}
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

// printRest prints the packages with a test that failed, and an expression for these tests.
func (r *report) printRest(out io.Writer) error {
	failed := map[string][]string{}
	for _, n := range r.sorted() {
		test, _, _ := strings.Cut(n.test, "/")
		if test != "" && firstFailure(r.attempts[n]) != nil && !slices.Contains(failed[n.pkg], test) {
			failed[n.pkg] = append(failed[n.pkg], test)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(failed)) {
		if _, err := fmt.Fprintf(out, "%s ^(%s)$\n", pkg, strings.Join(failed[pkg], "|")); err != nil {
			return err
		}
	}
	return nil
}

// red adds a reason why the run is red.
func (r *report) red(format string, args ...any) {
	r.reasons = append(r.reasons, fmt.Sprintf(format, args...))
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
