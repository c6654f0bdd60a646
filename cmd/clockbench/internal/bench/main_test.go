package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// The paths of the measured clockd, and of the clockbench with the HTTP server without a store.
var executable, baseline string

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
	executable, baseline = filepath.Join(directory, "clockd"), filepath.Join(directory, "clockbench")
	// as `make build` does, so that both share what is built
	for program, module := range map[string]string{"./cmd/clockd": "../../../..", ".": "../.."} {
		build := exec.Command("go", "build", "-C", module, "-trimpath", "-o", directory, program)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
			return 1
		}
	}
	_ = os.Unsetenv("GOGC") // of the tests, from the Makefile; a clockd paces its collector itself
	onNewName = func(name string) { createdNames.Store(name, true) }
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
