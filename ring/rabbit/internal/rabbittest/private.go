package rabbittest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// ownBroker is a private broker for tests that block, stop or reconfigure it. The first test that needs it starts it.
var ownBroker struct {
	once     sync.Once
	dir, url string
	err      error
}

// PrivateBroker returns the URL of the private broker. Tests use it one after the other, and restore it at their end.
func PrivateBroker(tb testing.TB) string {
	tb.Helper()
	ownBroker.once.Do(func() {
		ownBroker.dir, ownBroker.err = os.MkdirTemp("", "clockd-rabbit-test") //nolint:usetesting // outlives the first test
		if ownBroker.err != nil {
			return
		}
		ownBroker.err = os.Chmod(ownBroker.dir, 0o755) // the broker runs as a different user
		if out, err := services("up", "rabbitmq"); err != nil {
			ownBroker.err = fmt.Errorf("start a private broker: %w\n%s", err, out)
			return
		}
		out, err := services("env")
		match := regexp.MustCompile(`CLOCKD_TEST_AMQP_URL='([^']+)'`).FindSubmatch(out)
		if err != nil || match == nil {
			ownBroker.err = fmt.Errorf("find the URL of the private broker: %w\n%s", err, out)
			return
		}
		ownBroker.url = string(match[1])
	})
	if ownBroker.err != nil {
		tb.Fatal(ownBroker.err)
	}
	return ownBroker.url
}

// services runs deploy/services for the private broker.
func services(args ...string) ([]byte, error) {
	script, err := findServices()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(script, args...)
	cmd.Env = append(os.Environ(), "CLOCKD_SERVICES_DIR="+ownBroker.dir)
	return cmd.CombinedOutput()
}

// findServices looks for deploy/services in the directories above the tests.
func findServices() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		script := filepath.Join(dir, "deploy", "services")
		if _, missing := os.Stat(script); missing == nil || dir == filepath.Dir(dir) {
			return script, missing
		}
	}
	return "", err
}

// OnPrivate runs deploy/services for the private broker, and fails the test if the command fails.
func OnPrivate(tb testing.TB, args ...string) {
	tb.Helper()
	if out, err := services(args...); err != nil {
		tb.Fatalf("deploy/services %q: %v\n%s", args, err, out)
	}
}

// RestoreAfter runs deploy/services with args at the end of the test, to restore the private broker.
func RestoreAfter(tb testing.TB, args ...string) {
	tb.Helper()
	tb.Cleanup(func() { OnPrivate(tb, args...) })
}

// SetMemoryAlarm raises or ends the memory alarm of the private broker. The alarm also ends with the test. The broker
// tells its connections of the alarm before it answers the question for its alarms, so a message published after
// SetMemoryAlarm finds it.
func SetMemoryAlarm(tb testing.TB, on bool) {
	tb.Helper()
	mark := "0.4"
	if on {
		mark = "0.0000001"
		tb.Cleanup(func() { SetMemoryAlarm(tb, false) })
	}
	OnPrivate(tb, "ctl", "rabbitmq", "eval",
		fmt.Sprintf("vm_memory_monitor:set_vm_memory_high_watermark(%s), rabbit_alarm:get_alarms().", mark))
}

// ManagementBroker starts the management plugin of the private broker. It returns the broker's URL and the API's URL.
// The plugin runs until the end of the test.
func ManagementBroker(tb testing.TB) (amqpURL, managementURL string) {
	tb.Helper()
	amqpURL = PrivateBroker(tb)
	plugins := filepath.Join(ownBroker.dir, "rabbitmq", "enabled_plugins")
	if err := os.WriteFile(plugins, []byte("[rabbitmq_management].\n"), 0o644); err != nil { //nolint:gosec // the broker's user reads it
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	port := listener.Addr().(*net.TCPAddr).Port
	_ = listener.Close()
	// start the plugin without a restart of the broker, which would take longer
	OnPrivate(tb, "ctl", "rabbitmq", "eval", fmt.Sprintf(`application:load(rabbitmq_management),
		application:set_env(rabbit, collect_statistics_interval, 500), %% how soon the API shows policies
		application:set_env(rabbitmq_management, tcp_config, [{port, %d}, {ip, "127.0.0.1"}]), {ok, _, _} = rabbit_plugins:ensure(%q).`, port, plugins))
	if err := os.WriteFile(plugins, []byte("[].\n"), 0o644); err != nil { //nolint:gosec // after a restart the plugin is off again
		tb.Fatal(err)
	}
	tb.Cleanup(func() { OnPrivate(tb, "ctl", "rabbitmq", "eval", fmt.Sprintf("rabbit_plugins:ensure(%q).", plugins)) })
	return amqpURL, fmt.Sprintf("http://guest:guest@127.0.0.1:%d", port)
}

// Main runs the tests of a package, stops the private broker, and fails if a goroutine is left. It returns the exit
// code.
func Main(m *testing.M) int {
	code := m.Run()
	if ownBroker.dir != "" {
		if out, err := services("down", "--purge", "rabbitmq"); err != nil {
			fmt.Fprintf(os.Stderr, "stop the private broker: %v\n%s", err, out)
			code = max(code, 1)
		}
		_ = os.RemoveAll(ownBroker.dir)
	}
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintf(os.Stderr, "goroutines leaked: %v\n", err)
		code = 1
	}
	return code
}
