package main

import (
	"strings"
	"testing"
)

// passed is a run in which one test passes.
const passed = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"output","Package":"p","Test":"TestA","Output":"one\n"}
{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}
{"Action":"pass","Package":"p","Elapsed":2}
`

// failed is a run in which the same test fails with the text.
func failed(text string) string {
	return strings.Replace(strings.ReplaceAll(passed, `"pass"`, `"fail"`), `one\n`, text, 1)
}

func TestRunIsJudged(t *testing.T) {
	for about, c := range map[string]struct{ events, red, green string }{
		"passes": {passed, "", "     1.5 s  p TestA\nflaky: 0\n1 passed, 0 failed, 0 skipped\n"},
		"failed once": {failed(`late\n`) + passed, "",
			"FLAKY p TestA\nlate\nflaky: 1\n1 passed, 0 failed, 0 skipped\n"},
		"failed twice":            {failed(`late\n`) + failed(`later\n`), "p TestA failed:\nlater\n", ""},
		"not repeated":            {failed(`late\n`), "p TestA failed:\nlate\n", ""},
		"repeated without a test": {failed(`late\n`) + `{"Action":"start","Package":"p"}` + "\n" + `{"Action":"pass","Package":"p"}`, "p TestA failed:\nlate\n", ""},
		"data race":               {failed(`WARNING: DATA RACE\n`) + passed, `p TestA shows "WARNING: DATA RACE"`, ""},
		"panic":                   {failed(`panic: nil\n`) + passed, `p TestA shows "panic: nil"`, ""},
		"skip":                    {strings.Replace(passed, `"pass"`, `"skip"`, 1), "p TestA was skipped", ""},
		"leak": {
			strings.Replace(passed, `{"Action":"pass","Package":"p","Elapsed":2}`,
				`{"Action":"output","Package":"p","Output":"found a leak\n"}`+"\n"+`{"Action":"fail","Package":"p"}`,
				1) + passed,
			"p failed without a failed test:\nfound a leak\n", "",
		},
		"hang": {strings.Replace(passed,
			`{"Action":"pass","Package":"p","Test":"TestA","Elapsed":1.5}`+"\n", "", 1),
			"p TestA has not ended:\none\n", ""},
		"panic in the log of a child": {failed(`    panic: nil\n`) + passed, `p TestA shows "panic: nil"`, ""},
		"panic in a request":          {failed(`    level=ERROR err=\"panic: nil\"\n`) + passed, `p TestA shows "level=ERROR`, ""},
		"panic in a request, in JSON": {failed(`    {\"err\":\"panic: nil\"}\n`) + passed, `p TestA shows "{`, ""},
		"panic is a word":             {failed(`want \"no panic: x\"\n`) + passed, "", "1 passed"},
		"panic after much output": {failed(strings.Repeat(`x`, 200<<10)+`\nfatal error: concurrent map writes\n`) + passed,
			`p TestA shows "fatal error: concurrent map writes"`, ""},
		"process died beside a test that failed once": {
			failed(`late\n`) + `{"Action":"run","Package":"p","Test":"TestB"}` + "\n" + passed +
				strings.ReplaceAll(passed, "TestA", "TestB"),
			"p TestB has not ended", "",
		},
		"hang after the tests": {
			strings.Replace(failed(`late\n`), `{"Action":"fail","Package":"p","Elapsed":2}`,
				`{"Action":"output","Package":"p","Output":"*** Test killed with quit: ran too long (2s).\n"}`+"\n"+
					`{"Action":"fail","Package":"p"}`, 1) + passed,
			`p shows "*** Test killed`, "",
		},
		"ended by its TestMain": {passed + `{"Action":"start","Package":"q"}` + "\n" + `{"Action":"pass","Package":"q"}`,
			"q passed without a test", ""},
		"killed":  {passed + `{"Action":"start","Package":"q"}`, "q has not ended", ""},
		"build":   {passed + `{"ImportPath":"q","Action":"build-fail"}`, "build failed", ""},
		"nothing": {"", "no test was run", ""},
		"no tests": {`{"Action":"start","Package":"p"}` + "\n" + `{"Action":"skip","Package":"p"}`,
			"no test was run", ""},
		"text of a build": {"go: downloading x\n" + passed, "", "1 passed"},
		"subtest is named": {strings.ReplaceAll(passed, "TestA", "TestA/b") + passed, "",
			"     1.5 s  p TestA/b\nflaky: 0\n2 passed"},
	} {
		t.Run(about, func(t *testing.T) {
			r, out := newReport(), &strings.Builder{}
			if err := r.read("", strings.NewReader(c.events)); err != nil {
				t.Fatal(err)
			}
			err := r.print(out)
			if red := c.red != ""; red != (err != nil) || red && !strings.Contains(err.Error(), c.red) {
				t.Errorf("error %v, want %q", err, c.red)
			}
			if !strings.Contains(out.String(), c.green) {
				t.Errorf("printed\n%s\nwant\n%s", out, c.green)
			}
		})
	}
}

func TestSameTestOfTwoRunsIsJudgedTwice(t *testing.T) {
	r := newReport()
	for run, events := range map[string]string{"mysql": failed(`late\n`), "test": passed} {
		if err := r.read(run, strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.print(&strings.Builder{}); err == nil ||
		!strings.Contains(err.Error(), "p TestA (mysql) failed:\nlate\n") {
		t.Errorf("error %v", err)
	}
}

// The tests of a package that did not fail are named, so that they can run once more.
func TestRestLeavesOutWhatFailed(t *testing.T) {
	r, out := newReport(), &strings.Builder{}
	events := failed(`late\n`) + passed + strings.ReplaceAll(failed(`late\n`), "TestA", "TestB/c") +
		strings.ReplaceAll(passed, `"p"`, `"q"`)
	if err := r.read("", strings.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	if err := r.printRest(out); err != nil || out.String() != "p ^(TestA|TestB)$\n" {
		t.Errorf("%q, %v", out, err)
	}
}
