package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/clockd/clockd/clock/repeat"
	"github.com/clockd/clockd/store"
)

// version is the release. The build sets it with -ldflags "-X main.version=1.2.3", and main for a module that `go
// install` has fetched.
var version = "0.1.0-dev"

// moduleVersion returns the version of the fetched module that the program was built from, "" for a checkout.
func moduleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Sum == "" {
		return ""
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

type versionCommand struct{}

// Run prints the version, the commit if the build recorded it, the build level, and the version of the time-zone data.
func (versionCommand) Run() error {
	_, err := fmt.Fprintf(os.Stdout, "clockd %s%s %s %s/%s, build level %d, time-zone data %s\n",
		version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, store.BuildLevel(), repeat.Data().Version())
	return err
}

func commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	const short = 12
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= short {
			return " (" + s.Value[:short] + ")"
		}
	}
	return ""
}
