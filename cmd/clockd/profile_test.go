package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestProfileIsCompleteAfterTheStop also checks that a missing directory is an error.
func TestProfileIsCompleteAfterTheStop(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stop, err := startProfile(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "clockd-*.pprof"))
	if err != nil || len(found) != 1 {
		t.Fatalf("found %v, %v", found, err)
	}
	if info, err := os.Stat(found[0]); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v", info, err)
	}
	if _, err := startProfile(filepath.Join(dir, "nowhere")); err == nil {
		t.Fatal("no error for a missing directory")
	}
}
