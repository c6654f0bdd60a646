package clock_test

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/clockd/clockd"

// importTable lists the packages of this module that each package may import. cmd may import all packages, and no
// package may import cmd. "*" stands for one element of a path, "..." for any path below, and "internal" for the
// package's own internal packages. The first line that matches applies.
var importTable = []struct {
	pkg string
	may []string
}{
	{"cmd/...", []string{"..."}},
	{"client", []string{"client/internal/..."}},
	{"client/internal/faulty/run", []string{"client/internal/..."}},
	{"client/internal/...", nil},
	{"clock", []string{"clock/repeat"}},
	{"clock/repeat", nil},
	{"clock/recompute", []string{"clock", "clock/repeat"}},
	{"clock/stats", []string{"clock"}},
	{"clock/quota", []string{"clock"}},
	{"clock/bulk", []string{"clock"}},
	{"clock/access", []string{"clock"}},
	{"clock/oidc", []string{"clock", "clock/access"}},
	{"clock/oidc/issuertest", nil},
	{"clock/settings", []string{"clock"}},
	{"clock/manifest", []string{"clock", "clock/settings"}},
	{"clock/ringstream", []string{"clock"}},
	{"clock/front", []string{"clock", "clock/access"}},
	{"clock/clockhttp",
		[]string{"clock", "clock/access", "clock/bulk", "clock/front", "clock/manifest", "clock/repeat",
			"clock/ringstream", "clock/settings", "clock/stats"}},
	{"clock/console", nil},
	{"clock/clockgrpc",
		[]string{"clock", "clock/access", "clock/front", "clock/repeat", "clock/ringstream", "clock/settings",
			"clock/clockgrpc/clockd/..."}},
	{"clock/clockgrpc/clockd/v1", nil},
	{"clock/clockgrpc/clockd/v1/clockdv1connect", []string{"clock/clockgrpc/clockd/v1"}},
	{"store", []string{"clock", "clock/access", "clock/manifest", "clock/settings"}},
	{"store/engine",
		[]string{"clock", "clock/access", "clock/manifest", "clock/repeat", "clock/settings", "store"}},
	{"store/storetest",
		[]string{"clock", "clock/access", "clock/manifest", "clock/repeat", "clock/settings", "store", "store/engine"}},
	{"store/archive", []string{"clock", "clock/settings", "store", "store/engine"}},
	{"store/recovery", []string{"clock", "store"}},
	{"store/*", []string{"clock", "store", "store/engine", "schema", "schema/*", "internal"}},
	{"store/*/internal/dbsqlc", nil},
	{"preload", []string{"clock", "store"}},
	{"preload/*", []string{"clock", "store"}},
	{"ring", []string{"clock", "store"}},
	{"ring/webhook", []string{"clock", "clock/settings", "ring", "ring/httpcall"}},
	{"ring/grpc", []string{"clock", "clock/settings", "ring", "ring/httpcall"}},
	{"ring/targettest", []string{"clock", "ring", "ring/httpcall"}},
	{"ring/kafka/kafkatest", nil},
	{"ring/rabbit", []string{"clock", "clock/settings", "ring", "ring/rabbit/inbox", "internal"}},
	{"ring/rabbit/inbox", []string{"clock", "ring", "ring/rabbit/internal/*"}},
	{"ring/rabbit/internal/wire", []string{"clock", "ring", "ring/rabbit/internal/scripted"}},
	{"ring/rabbit/internal/scripted", nil},
	{"ring/rabbit/internal/rabbittest", []string{"ring/rabbit/internal/scripted"}},
	{"ring/*", []string{"clock", "clock/settings", "ring"}},
	{"schema/...", nil},
	{"queries/...", nil},
	{"deploy/...", nil},
}

// homes lists libraries with the only packages that may import them.
var homes = []struct {
	library string
	at      []string
}{
	{"github.com/labstack/", []string{"clock/clockhttp"}},
	{"connectrpc.com/", []string{"clock/clockgrpc/..."}},
	{"google.golang.org/protobuf", []string{"clock/clockgrpc/..."}},
	{"github.com/rabbitmq/amqp091-go", []string{"ring/rabbit/...", "cmd/..."}},
	{"github.com/twmb/franz-go", []string{"ring/kafka/..."}},
	{"go.opentelemetry.io/", []string{"cmd/..."}},
	{"go.uber.org/fx", []string{"cmd/..."}},
	{"go.uber.org/dig", []string{"cmd/..."}},
	{"github.com/alecthomas/kong", []string{"cmd/..."}},
	{"github.com/go-sql-driver/mysql", []string{"store/mysql/...", "cmd/..."}},
	{"github.com/jackc/pgx", []string{"store/postgresql/...", "cmd/..."}},
	{"modernc.org/sqlite", []string{"store/sqlite/...", "cmd/..."}},
}

func TestPackagesImportOnlyWhatTheTableAllows(t *testing.T) {
	root := moduleRoot(t)
	found := map[string]bool{}
	for _, folder := range []string{".", "client"} { // two modules
		for file, imports := range goImports(t, filepath.Join(root, folder)) {
			pkg := path.Join(folder, path.Dir(file))
			found[pkg] = true
			for _, imported := range imports {
				if why := problem(pkg, imported); why != "" {
					t.Errorf("%s (package %s) %s", file, pkg, why)
				}
			}
		}
	}
	if !found["clock"] || !found["store"] || !found["client/internal/once"] {
		t.Errorf("only these packages were found: %v", found)
	}
}

// problem returns the reason why pkg must not import the other package, empty if it may.
func problem(pkg, imported string) string {
	for _, h := range homes {
		if strings.HasPrefix(imported, h.library) && !fits(h.at, pkg) {
			return fmt.Sprintf("imports %s, whose home is %v", imported, h.at)
		}
	}
	ours, isOurs := strings.CutPrefix(imported, module+"/")
	if !isOurs {
		return ""
	}
	for _, line := range importTable {
		switch {
		case !fits([]string{line.pkg}, pkg):
			continue
		case fits(line.may, ours) || slices.Contains(line.may, "internal") && strings.HasPrefix(ours, pkg+"/internal/"):
			return ""
		}
		return fmt.Sprintf("imports %s; within this module it may import %v", ours, line.may)
	}
	return "has no line in the import table"
}

// Applications get the client without the service and its libraries.
func TestClientNeedsTheStandardLibraryAlone(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(moduleRoot(t), "client", "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "module " + module + "/client\n\ngo 1.24.0\n"; string(b) != want {
		t.Errorf("client/go.mod is %q, want %q", b, want)
	}
}

func TestImportTableRefusesOtherImports(t *testing.T) {
	for _, c := range []struct {
		pkg, imported string
		may           bool
	}{
		{"clock", module + "/store", false},
		{"clock", "time", true},
		{"clock", module + "/clock/repeat", true},
		{"clock/repeat", module + "/clock", false},
		{"clock/clockhttp", module + "/clock", true},
		{"clock/clockhttp", module + "/store", false},
		{"clock/clockhttp", "github.com/labstack/echo/v4", true},
		{"cmd/clockd", "github.com/labstack/echo/v4", false},
		{"clock/console", module + "/clock", false},
		{"clock/console", "github.com/labstack/echo/v4", false},
		{"clock/clockgrpc", module + "/clock", true},
		{"clock/clockgrpc", module + "/clock/clockhttp", false},
		{"clock/clockgrpc", "connectrpc.com/connect", true},
		{"clock/clockgrpc/clockd/v1", module + "/clock", false},
		{"clock/clockhttp", "connectrpc.com/connect", false},
		{"store", module + "/clock", true},
		{"store", module + "/ring", false},
		{"store/mysql", module + "/store/mysql/internal/dbsqlc", true},
		{"store/mysql", module + "/store/postgresql/internal/dbsqlc", false},
		{"store/mysql", module + "/store/postgresql", false},
		{"store/mysql", module + "/store/engine", true},
		{"store/engine", module + "/store/mysql", false},
		{"ring", module + "/store/engine", false},
		{"store/mysql", module + "/schema/mysql", true},
		{"store/mysql/internal/dbsqlc", module + "/clock", false},
		{"preload", module + "/ring", false},
		{"preload", module + "/store", true},
		{"preload", module + "/preload/lease", false},
		{"preload/lease", module + "/preload", false},
		{"preload/wake", module + "/preload/lease", false},
		{"preload/wake", module + "/store", true},
		{"ring", module + "/preload", false},
		{"ring/stream", module + "/ring", true},
		{"ring/stream", module + "/store", false},
		{"ring/stream", module + "/ring/httpcall", false},
		{"ring/webhook", module + "/ring/httpcall", true},
		{"ring/httpcall", module + "/ring/webhook", false},
		{"ring", "github.com/rabbitmq/amqp091-go", false},
		{"ring/rabbit", "github.com/rabbitmq/amqp091-go", true},
		{"ring/kafka", "github.com/twmb/franz-go/pkg/kgo", true},
		{"cmd/clockd", "github.com/twmb/franz-go/pkg/kgo", false},
		{"ring/rabbit", "go.uber.org/fx", false},
		{"cmd/clockd", "go.uber.org/fx", true},
		{"cmd/clockd", module + "/ring/rabbit", true},
		{"ring", module + "/cmd/clockd", false},
		{"client", "net/http", true},
		{"client", module + "/clock", false},
		{"client", module + "/client/internal/recent", true},
		{"client/internal/recent", module + "/client", false},
		{"clock", module + "/client", false},
		{"cmd/clockd", module + "/client", true},
		{"common", module + "/clock", false},
	} {
		if got := problem(c.pkg, c.imported); (got == "") != c.may {
			t.Errorf("%s, %s: %q", c.pkg, c.imported, got)
		}
	}
}

// fits reports whether pkg matches a pattern.
func fits(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		if below, ok := strings.CutSuffix(p, "..."); ok {
			return strings.HasPrefix(pkg+"/", below)
		}
		ok, err := path.Match(p, pkg)
		return ok && err == nil
	})
}

func moduleRoot(t *testing.T) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
	}
	t.Fatal("no parent folder has a go.mod")
	return ""
}

// goImports returns the imports of each Go file of the module, by the file's path from the root, with slashes. It
// leaves out tests, hidden directories and nested modules.
func goImports(t *testing.T, root string) map[string][]string {
	t.Helper()
	files := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return skipForeign(root, name, d.Name())
		case !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = importsOf(name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// eachGoFile calls take with each Go file of all modules below root. It passes over folders with a leading dot: the
// files of the test servers are in one, and come and go.
func eachGoFile(t *testing.T, root string, take func(path string, source []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go"):
			return nil
		}
		source, err := os.ReadFile(path)
		if err == nil {
			take(path, source)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func skipForeign(root, dir, base string) error {
	if dir == root {
		return nil
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	if err == nil || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" ||
		base == "vendor" {
		return filepath.SkipDir
	}
	return nil
}

func importsOf(file string) ([]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		return nil, err
	}
	var imports []string
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return nil, err
		}
		imports = append(imports, name)
	}
	return imports, nil
}
