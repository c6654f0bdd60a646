package clock_test

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestFilesReferOnlyToTheirOwnLayerAndLowerLayers compares the files of this package with the table of layers in
// doc.go.
func TestFilesReferOnlyToTheirOwnLayerAndLowerLayers(t *testing.T) {
	names, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	fset := token.NewFileSet()
	var files []*ast.File
	var table map[string]int
	for _, name := range names {
		switch {
		case name == "doc.go":
			table = layersOf(parse(t, fset, name, nil).Doc.Text())
		case !strings.HasSuffix(name, "_test.go"):
			files = append(files, parse(t, fset, name, nil))
		}
	}
	for _, fault := range layerFaults(t, fset, files, table) {
		t.Error(fault)
	}
}

func TestLayersRefuseAnUpwardReference(t *testing.T) {
	table := layersOf("Package clock.\n\n# Layers\n\nA sentence.\n\n\tservice  the calls: service.go writer.go\n" +
		"\tmodel    alarm.go\n\t         state.go\n\n# Next\n\n\tother.go\n")
	if want := map[string]int{"service.go": 1, "writer.go": 1, "alarm.go": 0, "state.go": 0}; !maps.Equal(table, want) {
		t.Fatalf("read the layers %v, want %v", table, want)
	}
	sources := map[string]string{
		"service.go": "package clock; type Service struct{ w writer; a Alarm }; func (a Alarm) Ring() {}",
		"writer.go":  "package clock; import \"sync\"; type writer struct{ mu sync.Mutex }; const limit = 1",
		"alarm.go":   "package clock; type Alarm struct{ State State }",
		"state.go":   "package clock; type State int",
	}
	for _, c := range []struct{ name, file, line, want string }{
		{"references to the same and to lower layers", "", "", ""},
		{"a type", "alarm.go", "var s *Service",
			"alarm.go:2 refers to Service, which service.go of a higher layer declares"},
		{"a constant", "state.go", "var n = limit",
			"state.go:2 refers to limit, which writer.go of a higher layer declares"},
		{"a method", "alarm.go", "func f(as []Alarm) { as[0].Ring() }",
			"alarm.go:2 refers to Ring, which service.go of a higher layer declares"},
		{"a file without a layer", "retry.go", "package clock", "retry.go is in no layer"},
		{"a layer without its file", "state.go", "gone", "state.go is in a layer, but does not exist"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := maps.Clone(sources)
			changed[c.file] = strings.TrimSpace(changed[c.file] + "\n" + c.line)
			if c.line == "gone" || c.file == "" {
				delete(changed, c.file)
			}
			fset := token.NewFileSet()
			var files []*ast.File
			for name, source := range changed {
				if c.line == "gone" {
					source = "package clock"
				}
				files = append(files, parse(t, fset, name, source))
			}
			if got := strings.Join(layerFaults(t, fset, files, table), "; "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

var goFile = regexp.MustCompile(`\b[a-z_]+\.go\b`)

// layersOf reads the table of layers in a package comment: the lines that begin with a tab below the heading "Layers".
// It returns the layer's number for each file. The lowest layer, at the end of the table, has number 0. A line that
// begins with blanks continues the layer above it.
func layersOf(doc string) map[string]int {
	_, section, _ := strings.Cut(doc, "# Layers\n")
	section, _, _ = strings.Cut(section, "\n# ")
	table, layer := map[string]int{}, 0
	for _, line := range slices.Backward(strings.Split(section, "\n")) {
		row, isRow := strings.CutPrefix(line, "\t")
		if !isRow {
			continue
		}
		for _, file := range goFile.FindAllString(row, -1) {
			table[file] = layer
		}
		if !strings.HasPrefix(row, " ") {
			layer++
		}
	}
	return table
}

// layerFaults returns the references from a lower layer to a higher layer, and the files without a layer. It finds
// references to functions, types, constants, variables, methods and fields.
func layerFaults(t *testing.T, fset *token.FileSet, files []*ast.File, table map[string]int) []string {
	t.Helper()
	faults := map[string]bool{}
	missing := maps.Clone(table)
	for _, file := range files {
		name := fset.File(file.Pos()).Name()
		if _, has := table[name]; !has {
			faults[name+" is in no layer"] = true
		}
		delete(missing, name)
	}
	for name := range missing {
		faults[name+" is in a layer, but does not exist"] = true
	}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: compiledImports(t, fset)}
	pkg, err := checker.Check("clock", fset, files, info)
	if err != nil {
		t.Fatal(err)
	}
	for use, object := range info.Uses {
		if object.Pkg() != pkg {
			continue
		}
		at, declared := fset.Position(use.Pos()), fset.Position(object.Pos())
		if table[at.Filename] < table[declared.Filename] {
			faults[fmt.Sprintf("%s:%d refers to %s, which %s of a higher layer declares", at.Filename, at.Line,
				object.Name(), declared.Filename)] = true
		}
	}
	return slices.Sorted(maps.Keys(faults))
}

func parse(t *testing.T, fset *token.FileSet, name string, source any) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(fset, name, source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// compiledImports returns an importer of the packages that package clock imports. It asks the go command where their
// compiled forms are, because a test that is built with -trimpath does not know the standard library's folder.
func compiledImports(t *testing.T, fset *token.FileSet) types.Importer {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", ".")
	list.Stderr = t.Output()
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	compiled := map[string]string{}
	for line := range strings.Lines(string(out)) {
		imported, file, _ := strings.Cut(strings.TrimSpace(line), " ")
		compiled[imported] = file
	}
	return importer.ForCompiler(fset, "gc",
		func(imported string) (io.ReadCloser, error) { return os.Open(compiled[imported]) })
}
