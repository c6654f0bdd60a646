package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
)

// version is the release; set by -ldflags "-X main.version=1.2.3".
var version = "0.1.0-dev"

type versionCommand struct{}

// Run prints the version with the commit that it was built from, where the build knew it.
func (versionCommand) Run() error {
	_, err := fmt.Fprintf(os.Stdout, "clockd %s%s %s %s/%s\n", version, commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
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
