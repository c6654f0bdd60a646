// Package tidb parses the SQL of store/mysql with TiDB's own parser. TiDB's server is no part of the tests, so nothing
// here shows that it runs a statement.
package tidb

import (
	"go/ast"
	goparser "go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pingcap/tidb/pkg/parser"
	tidbast "github.com/pingcap/tidb/pkg/parser/ast"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the values of the parser's literals
)

// root is the repository.
const root = "../.."

// statements returns the string constants of the Go files that match the pattern, by name.
func statements(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	found := make(map[string]string)
	for _, name := range files {
		file, err := goparser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			spec, is := n.(*ast.ValueSpec)
			if !is || len(spec.Names) != len(spec.Values) {
				return true
			}
			for i, value := range spec.Values {
				if text, is := value.(*ast.BasicLit); is && text.Kind == token.STRING {
					found[spec.Names[i].Name], err = strconv.Unquote(text.Value)
					if err != nil {
						t.Fatalf("%s in %s: %v", spec.Names[i].Name, name, err)
					}
				}
			}
			return true
		})
	}
	return found
}

// sent returns a statement of queries/mysql as the driver sends it for three rows (repeated in store/mysql/bulk.go).
// The parser takes no parameters in some places, so each parameter is a number, as the driver puts it into the
// statement.
func sent(query string) string {
	for slice, rest, has := strings.Cut(query, "/*SLICE:"); has; slice, rest, has = strings.Cut(query, "/*SLICE:") {
		_, after, _ := strings.Cut(rest, "*/?")
		query = slice + "?, ?, ?" + after
	}
	if before, rest, has := strings.Cut(query, "/*FIRST*/"); has {
		first, rest, _ := strings.Cut(rest, "/*NEXT")
		next, after, _ := strings.Cut(rest, "*/")
		query = before + first + strings.Repeat(strings.ReplaceAll(next, "FIRST", first), 2) + after
	}
	return strings.ReplaceAll(query, "?", "1")
}

// parse returns the statements of a text.
func parse(t *testing.T, name, text string) []tidbast.StmtNode {
	t.Helper()
	parsed, _, err := parser.New().Parse(text, "", "")
	if err != nil {
		t.Errorf("%s: %v", name, err)
	}
	return parsed
}

// TestQueriesAreSQLOfTiDB also parses the statements that lock free rows in the form that TiDB gets, with NOWAIT.
func TestQueriesAreSQLOfTiDB(t *testing.T) {
	queries := statements(t, "store/mysql/internal/dbsqlc/*.sql.go")
	files, err := filepath.Glob(filepath.Join(root, "queries/mysql/*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		named += strings.Count(string(text), "-- name: ")
	}
	if named == 0 || named != len(queries) {
		t.Errorf("queries/mysql has %d statements, the generated code %d", named, len(queries))
	}
	driver := statements(t, "store/mysql/tidb.go")
	skipLocked, noWait := driver["skipLocked"], driver["noWait"]
	if skipLocked == "" || noWait == "" {
		t.Fatal("store/mysql/tidb.go has no constants skipLocked and noWait")
	}
	locking := 0
	for name, query := range queries {
		text := sent(query)
		if free, skips := strings.CutSuffix(text, skipLocked); skips {
			locking++
			text = free + noWait
		}
		for _, s := range parse(t, name, text) {
			if lock := lockOf(s); lock != nil && lock.LockType == tidbast.SelectLockForUpdateSkipLocked {
				t.Errorf("%s: TiDB would not lock its rows", name)
			}
		}
	}
	if locking == 0 {
		t.Error("no statement has SKIP LOCKED")
	}
}

// lockOf returns the locking clause of a SELECT, or nil.
func lockOf(s tidbast.StmtNode) *tidbast.SelectLockInfo {
	if query, is := s.(*tidbast.SelectStmt); is {
		return query.LockInfo
	}
	return nil
}

// TestSessionStatementsAreSQLOfTiDB parses the other statements that a store sends to TiDB.
func TestSessionStatementsAreSQLOfTiDB(t *testing.T) {
	constants := statements(t, "store/mysql/*.go")
	for _, name := range []string{"isolateSession", "prepareSession", "limitSession", "durabilityVariables", "migrateSession"} {
		text := strings.NewReplacer("%[1]d", "1", "%[2]d", "5", "%d", "5").Replace(constants[name])
		if len(parse(t, name, text)) != 1 {
			t.Errorf("%s is no statement: %q", name, text)
		}
	}
}

// TestMigrationsAreSQLOfTiDB also refuses an ALTER TABLE that changes a column or a key twice, and a join whose
// condition has a subquery, because TiDB parses both and refuses to run them.
func TestMigrationsAreSQLOfTiDB(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "schema/mysql/*.sql"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed := parse(t, file, string(text))
		if len(parsed) == 0 {
			t.Errorf("%s: %d statements", file, len(parsed))
		}
		for _, s := range parsed {
			if alter, is := s.(*tidbast.AlterTableStmt); is {
				checkAlter(t, file, alter)
			}
			s.Accept(&joins{t: t, file: file})
		}
	}
}

func checkAlter(t *testing.T, file string, alter *tidbast.AlterTableStmt) {
	t.Helper()
	var changed []string
	for _, spec := range alter.Specs {
		var names []string
		for _, column := range spec.NewColumns {
			names = append(names, "column "+column.Name.Name.L)
		}
		if spec.OldColumnName != nil {
			names = append(names, "column "+spec.OldColumnName.Name.L)
		}
		if spec.Tp == tidbast.AlterTableDropIndex {
			names = append(names, "key "+strings.ToLower(spec.Name))
		}
		if spec.Constraint != nil {
			names = append(names, "key "+strings.ToLower(spec.Constraint.Name))
		}
		for _, name := range names {
			if slices.Contains(changed, name) {
				t.Errorf("%s: one ALTER TABLE changes %s twice", file, name)
			}
			changed = append(changed, name)
		}
	}
}

// joins finds joins whose condition has a subquery.
type joins struct {
	t    *testing.T
	file string
	on   int // depth of conditions around the present node
}

// Enter implements the parser's Visitor.
func (j *joins) Enter(n tidbast.Node) (tidbast.Node, bool) {
	switch n.(type) {
	case *tidbast.OnCondition:
		j.on++
	case *tidbast.SubqueryExpr:
		if j.on > 0 {
			j.t.Errorf("%s: the condition of a join has a subquery", j.file)
		}
	}
	return n, false
}

// Leave implements the parser's Visitor.
func (j *joins) Leave(n tidbast.Node) (tidbast.Node, bool) {
	if _, is := n.(*tidbast.OnCondition); is {
		j.on--
	}
	return n, true
}
