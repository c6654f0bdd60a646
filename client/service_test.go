package client_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/clockd/clockd/client"
	"github.com/clockd/clockd/client/internal/clockdtest"
)

var (
	program   string // the path of clockd
	serverURL string // the service that the tests and the examples share; each uses applications of its own
)

func TestMain(m *testing.M) {
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	dir, err := os.MkdirTemp("", "clockd-client")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if program, err = clockdtest.Build(dir); err != nil {
		panic(err)
	}
	s, err := clockdtest.Start(program, filepath.Join(dir, "clockd.db"), io.Discard)
	if err != nil {
		panic(err)
	}
	serverURL = s.URL
	code := m.Run()
	if err := s.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	if leaked := clockdtest.Leaked(); leaked != "" && code == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:\n"+leaked)
		code = 1
	}
	return code
}

// newService starts a service of the test's own on a SQLite file. Another service may continue with the file after
// stop.
func newService(t *testing.T, file, listen string, settings ...string) (url string, stop func()) {
	t.Helper()
	s, err := clockdtest.Start(program, file, clockdtest.Log(t), append(settings, "CLOCKD_LISTEN="+listen)...)
	if err != nil {
		t.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		if err := s.Stop(); err != nil {
			t.Errorf("stop the service: %v", err)
		}
	})
	t.Cleanup(stop)
	return s.URL, stop
}

// dial returns a client of the service at url.
func dial(t *testing.T, url string, options ...client.Option) *client.Client {
	t.Helper()
	c, err := client.New(url, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.CloseIdleConnections)
	return c
}

// applications holds the application of each test.
var applications sync.Map

// applicationOf returns the test's application, which no other test and no other run of the test has.
func applicationOf(t *testing.T) string {
	app, _ := applications.LoadOrStore(t, "test-"+rand.Text())
	return app.(string)
}

// refused checks that err is an *Error with this code, and returns it.
func refused(t *testing.T, err error, code string) *client.Error {
	t.Helper()
	var failed *client.Error
	if !errors.As(err, &failed) || failed.Code != code {
		t.Fatalf("got %v (%+v), want the code %q", err, failed, code)
	}
	return failed
}
