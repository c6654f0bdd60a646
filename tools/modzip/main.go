// Modzip writes Go modules of a revision as the module proxy would serve them for a tag, into a directory that GOPROXY
// can name with file://. So a release can be tried, and the sums that it needs be computed, before its tags are public.
//
//	modzip REPOSITORY REVISION VERSION DIRECTORY FOLDER...
//
// A FOLDER has the go.mod of a module, "." is the root of the repository.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	if len(os.Args) < 6 {
		fmt.Fprintln(os.Stderr, "usage: modzip REPOSITORY REVISION VERSION DIRECTORY FOLDER...")
		os.Exit(2)
	}
	r := revision{repository: os.Args[1], name: os.Args[2]}
	for _, folder := range os.Args[5:] {
		if err := r.write(folder, os.Args[3], os.Args[4]); err != nil {
			fmt.Fprintf(os.Stderr, "modzip: %s: %v\n", folder, err)
			os.Exit(1)
		}
	}
}

// revision is a commit of a git repository.
type revision struct{ repository, name string }

// write writes the module in a folder into the directory of a proxy.
func (r revision) write(folder, version, directory string) error {
	goMod, err := r.git("show", r.name+":"+path.Join(folder, "go.mod"))
	if err != nil {
		return err
	}
	m := module.Version{Path: modfile.ModulePath(goMod), Version: version}
	if err := module.Check(m.Path, m.Version); err != nil {
		return err
	}
	committed, err := r.git("show", "--no-patch", "--format=%cI", r.name)
	if err != nil {
		return err
	}
	at, err := time.Parse(time.RFC3339, string(bytes.TrimSpace(committed)))
	if err != nil {
		return err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, at.UTC()})
	if err != nil {
		return err
	}
	var files bytes.Buffer
	if folder == "." {
		folder = ""
	}
	if err := zip.CreateFromVCS(&files, m, r.repository, r.name, folder); err != nil {
		return err
	}
	escaped, err := module.EscapePath(m.Path)
	if err != nil {
		return err
	}
	home := filepath.Join(directory, filepath.FromSlash(escaped), "@v")
	if err := os.MkdirAll(home, 0o755); err != nil {
		return err
	}
	for name, content := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".info": info, version + ".mod": goMod, version + ".zip": files.Bytes(),
	} {
		if err := os.WriteFile(filepath.Join(home, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func (r revision) git(args ...string) ([]byte, error) {
	out, err := exec.Command("git", append([]string{"-C", r.repository}, args...)...).Output()
	if failed, ok := err.(*exec.ExitError); ok {
		return nil, fmt.Errorf("git %s: %s", args[0], bytes.TrimSpace(failed.Stderr))
	}
	return out, err
}
