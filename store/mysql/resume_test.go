package mysql

import (
	"errors"
	"testing"
)

// A migration that was killed goes on with the clauses of an ALTER TABLE that have not run. A clause that can be
// repeated always runs.
func TestMigrationContinuesWithinAnAlterTable(t *testing.T) {
	t.Parallel()
	conn, err := migrated(t).d.upkeep.Conn(t.Context())
	ok(t, err, "connect")
	defer conn.Close()
	run := func(statement string) {
		t.Helper()
		_, err := conn.ExecContext(t.Context(), statement)
		ok(t, err, statement)
	}
	const statement = `ALTER TABLE later
    ADD COLUMN c INT NOT NULL DEFAULT 0, -- a comment, with a comma
    DROP COLUMN b,
    DROP KEY later_a,
    ADD KEY later_a (a, c),
    MODIFY COLUMN a BIGINT NOT NULL;
`
	const add, drop, dropKey, addKey, repeated = "ADD COLUMN c INT NOT NULL DEFAULT 0", "DROP COLUMN b", "DROP KEY later_a",
		"ADD KEY later_a (a, c)", "MODIFY COLUMN a BIGINT NOT NULL"
	for _, c := range []struct{ ran, want string }{
		{"", add + ", " + drop + ", " + dropKey + ", " + addKey + ", " + repeated},
		{add, drop + ", " + dropKey + ", " + addKey + ", " + repeated},
		{dropKey, add + ", " + drop + ", " + addKey + ", " + repeated},
		{add + ", " + drop, dropKey + ", " + addKey + ", " + repeated},
		{add + ", " + drop + ", " + dropKey + ", " + addKey, repeated},
	} {
		run("CREATE TABLE later (a INT NOT NULL, b INT NOT NULL, KEY later_a (a)) ENGINE = InnoDB")
		if c.ran != "" {
			run("ALTER TABLE later " + c.ran)
		}
		rest, err := schemaProbe{conn}.remaining(t.Context(), statement)
		ok(t, err, "read what remains")
		if rest != "ALTER TABLE later "+c.want {
			t.Errorf("after %q remains %q, want %q", c.ran, rest, c.want)
		}
		run(rest)
		run("DROP TABLE later")
	}
	for statement, want := range map[string]error{
		"CREATE INDEX later ON alarm (id);":                           errUnknownStatement,
		"ALTER TABLE alarm RENAME TO later;":                          errUnknownStatement,
		"CREATE TABLE alarm_report (id INT NOT NULL) ENGINE = InnoDB": errForeignTable,
		"CREATE TABLE alarm (later INT NOT NULL) ENGINE = InnoDB":     errForeignTable,
	} {
		if rest, err := (schemaProbe{conn}).remaining(t.Context(), statement); !errors.Is(err, want) {
			t.Errorf("%s: %q, %v, want %v", statement, rest, err, want)
		}
	}
}
