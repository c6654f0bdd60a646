package engine

import (
	"strings"
	"testing"
	"testing/fstest"
)

// A comment between statements is skipped. A comment within a statement stays.
func TestReadMigrationsSplitsStatementsLikeGoose(t *testing.T) {
	const text = `-- +goose Up
-- What it is for.
CREATE TABLE a (
    n BIGINT -- a number; not more
); -- the end

-- Between.
DROP TABLE b;
`
	all, err := ReadMigrations(fstest.MapFS{"00002_b.sql": {Data: []byte(text)}, "00001_a.sql": {Data: []byte(text)}, "schema.go": {}})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) != 2 || all[0].Version != 1 || all[1].Name != "00002_b.sql" || all[1].Header != "-- What it is for.\n" {
		t.Fatalf("got %+v", all)
	}
	want := []string{"CREATE TABLE a (\n    n BIGINT -- a number; not more\n); -- the end\n", "DROP TABLE b;\n"}
	if got := all[0].Up; len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %q", got)
	}
}

// Each file would be read differently by goose, or lacks its end.
func TestReadMigrationsRefusesFilesThatGooseReadsDifferently(t *testing.T) {
	for name, text := range map[string]string{
		"no version":      "-- +goose Up\nSELECT 1;\n",
		"00001_open":      "-- +goose Up\nSELECT 1\n",
		"00001_empty":     "-- +goose Up\n",
		"00001_no_up":     "SELECT 1;\n",
		"00001_down":      "-- +goose Up\nSELECT 1;\n-- +goose Down\nSELECT 2;\n",
		"00001_statement": "-- +goose Up\n-- +goose StatementBegin\nSELECT 1;\n-- +goose StatementEnd\n",
		"00001_no_tx":     "-- +goose NO TRANSACTION\n-- +goose Up\nSELECT 1;\n",
	} {
		if _, err := ReadMigrations(fstest.MapFS{name + ".sql": {Data: []byte(text)}}); err == nil ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
