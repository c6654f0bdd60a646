package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// executable is the clockd that the tests measure.
var executable string

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	directory, err := os.MkdirTemp("", "clockd-bench-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(directory) }()
	executable = filepath.Join(directory, "clockd")
	if out, err := exec.Command("go", "build", "-o", executable, "github.com/clockd/clockd/cmd/clockd").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build clockd: %v\n%s", err, out)
		return 1
	}
	nameMade = func(name string) { made.Store(name, true) }
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
