// Testreport reads the events of go test and says whether the tests may be trusted: nothing was skipped, each test that
// began has ended, and each test that failed has passed when it ran again.
//
//	go -C tools run ./testreport FILE...
//
// Each FILE has the events of one run, as gotestsum writes them with --jsonfile: one JSON object a line, those of
// repeated tests at the end. Testreport prints the ten slowest tests, each test that failed once with the output of its
// first failure, and the totals of all files. With several files, the name of the file follows the name of each test.
// If a run is red, testreport prints the reasons and ends with status 1.
//
// gotestsum repeats failed tests. Some failures must not be repeated, and it repeats them in a way that passes: a
// package whose TestMain fails, for example because a goroutine leaks, is run again without any test. So Testreport has
// its own rules, and these are red even if the test passed later:
//
//   - a test that failed and did not pass afterwards
//   - a package that failed without a failed test
//   - a package that passed without a test, for example because its TestMain ended the process
//   - a test that has neither passed nor failed: its process died or hung
//   - output of a failed test or package that shows a data race, a panic, a fatal error of the runtime or a hang
//   - a skipped test, or no passed test at all
//
// A failed test also hides whether its TestMain failed. So `.ci/run` runs the other tests of its package once more:
//
//	go -C tools run ./testreport -rest FILE
//
// prints, for each package with a test that failed once, a line with the package, a blank, and a regular expression
// that go test -skip takes for the failed tests.
package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
}

// run reports on the files. It returns an error if a file cannot be read, or if a run is red.
func run(paths []string, out io.Writer) error {
	rest := len(paths) > 0 && paths[0] == "-rest"
	if rest {
		paths = paths[1:]
	}
	if len(paths) == 0 {
		return fmt.Errorf("usage: testreport [-rest] FILE...")
	}
	r := newReport()
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		run := ""
		if len(paths) > 1 {
			run = strings.TrimSuffix(filepath.Base(path), ".json")
		}
		err = r.read(run, file)
		file.Close()
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if rest {
		return r.printRest(out)
	}
	return r.print(out)
}
