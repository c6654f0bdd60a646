package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSecretsComeFromFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "url")
	if err := os.WriteFile(file, []byte("sqlite:"+filepath.Join(dir, "named.db")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := command([]string{"CLOCKD_DATABASE_URL_FILE=" + file}, "migrate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	unused := []string{"CLOCKD_DATABASE_URL_FILE=" + file, "CLOCKD_TOKEN_FILE=" + file + "2"}
	if out, err := command(unused, "config").CombinedOutput(); err != nil {
		t.Errorf("the file of a variable that a service does not use: %v: %s", err, out)
	}
	if _, err := os.Stat(filepath.Join(dir, "named.db")); err != nil {
		t.Errorf("the URL of the file is not used: %v", err)
	}
	for _, c := range []struct {
		env     []string
		message string
	}{
		{[]string{"CLOCKD_DATABASE_URL=sqlite:x", "CLOCKD_DATABASE_URL_FILE=" + file}, "are both set"},
		{[]string{"CLOCKD_DATABASE_URL_FILE=" + file + "2"}, "CLOCKD_DATABASE_URL_FILE: open"},
		{[]string{"CLOCKD_DATABASE_URL_FILE=/dev/null"}, "/dev/null is empty"},
	} {
		if out, err := command(c.env, "migrate").CombinedOutput(); err == nil ||
			!strings.Contains(string(out), c.message) {
			t.Errorf("%v: %v\n%s\nwant a failure with %q", c.env, err, out, c.message)
		}
	}
}
