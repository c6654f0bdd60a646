package sqlite

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestURLNamesOneFileOrIsRefused(t *testing.T) {
	for url, want := range map[string]string{
		"sqlite:clockd.db":          "clockd.db",
		"sqlite:./data/clockd.db":   "./data/clockd.db",
		"sqlite:/var/lib/clockd.db": "/var/lib/clockd.db",
		"sqlite:///var/lib/c.db":    "/var/lib/c.db",
		"sqlite:100% sure+1 ü.db":   "100% sure+1 ü.db",
		"sqlite:file:x":             "file:x",
	} {
		got, err := Config{URL: url}.path()
		if err != nil || got != want {
			t.Errorf("path of %q: %q, %v, want %q", url, got, err, want)
		}
	}
	for url, want := range map[string]string{
		"":                               "sqlite:PATH",
		"clockd.db":                      "sqlite:PATH",
		"mysql://root:secret@localhost/": "sqlite:PATH",
		"sqlite:":                        "names no file",
		"sqlite:///":                     "is a directory",
		"sqlite:data/":                   "is a directory",
		"sqlite://host/clockd.db":        "no host",
		"sqlite::memory:":                "loses every alarm",
		"sqlite:file:x?mode=memory":      "loses every alarm",
		"sqlite:clockd.db?_pragma=x":     "no parameters",
		"sqlite:a#b":                     "no parameters",
		"sqlite:a\x00b":                  "no parameters",
	} {
		got, err := Config{URL: url}.path()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("path of %q: %q, %v, want an error with %q", url, got, err, want)
		}
	}
}

func TestValidateRefusesBrokenSettings(t *testing.T) {
	valid := DefaultConfig()
	valid.URL = "sqlite:clockd.db"
	if err := valid.Validate(); err != nil {
		t.Error(err)
	}
	for _, change := range []func(*Config){
		func(c *Config) { c.URL = "" },
		func(c *Config) { c.Shards = -1 },
		func(c *Config) { c.Shards = maxShards + 1 },
		func(c *Config) { c.Readers = 0 },
		func(c *Config) { c.Timeout = 0 },
	} {
		c := valid
		change(&c)
		if _, err := New(c, Deps{}); err == nil {
			t.Errorf("%+v is accepted", c)
		}
	}
}

func TestValidateNamesAllBrokenSettings(t *testing.T) {
	err := Config{Shards: -1}.Validate()
	for _, reason := range []string{"URL", "shards", "readers", "read conns", "timeout"} {
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("the error does not name %q: %v", reason, err)
		}
	}
}

// FuzzURLOpensThatFile opens the file that a URL names. The opened file has that name, and is never a database in
// memory.
func FuzzURLOpensThatFile(f *testing.F) {
	for _, url := range []string{"clockd.db", "a%20b", "a b+c&d=e", "file:x", "%3fmode=memory", "é\u00a0", ":memory", "x;y", `q"'\`} {
		f.Add(url)
	}
	directory := f.TempDir()
	f.Fuzz(func(t *testing.T, name string) {
		path, err := Config{URL: scheme + name}.path()
		if err != nil || strings.ContainsAny(name, "/") || name == "." || name == ".." || len(name) > 200 {
			return
		}
		if path != name {
			t.Fatalf("%q became %q", name, path)
		}
		full := filepath.Join(directory, path)
		db, err := open(full, writePragmas, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		var opened string
		if err := db.QueryRow("SELECT file FROM pragma_database_list").Scan(&opened); err != nil {
			t.Fatal(err)
		}
		if filepath.Base(opened) != path {
			t.Fatalf("%q opened %q", name, opened)
		}
	})
}
