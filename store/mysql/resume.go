package mysql

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// schemaProbe finds out from the schema which part of a migration's statement is still to run. The server commits each
// change of the schema by itself, so a killed migration leaves some changes behind. A single statement has run
// completely or not at all.
type schemaProbe struct{ db *sql.Conn }

// The statements and clauses that a migration may contain. UPDATE, DELETE, INSERT IGNORE and prepared statements run
// again after a kill: write them so that a repetition changes nothing.
var (
	createTable = regexp.MustCompile(`(?s)^CREATE TABLE (\w+) \((.*)\) ENGINE`)
	alterTable  = regexp.MustCompile(`(?s)^ALTER TABLE (\w+)\s(.*?);?$`)
	createView  = regexp.MustCompile(`^CREATE (?:OR REPLACE )?VIEW `)
	dropView    = regexp.MustCompile(`^DROP VIEW `)
	changeRows  = regexp.MustCompile(`^(UPDATE|DELETE|INSERT IGNORE|PREPARE|EXECUTE|DEALLOCATE PREPARE) `)

	comment   = regexp.MustCompile(`--[^\n]*`)
	column    = regexp.MustCompile(`(?m)^\s*(\w+)\s`)
	notColumn = []string{"PRIMARY", "UNIQUE", "KEY"}

	addColumn  = regexp.MustCompile(`^ADD COLUMN (\w+) `)
	dropColumn = regexp.MustCompile(`^DROP COLUMN (\w+)$`)
	addKey     = regexp.MustCompile(`^ADD (?:UNIQUE )?KEY (\w+) \(([\w\s,]+)\)$`)
	dropKey    = regexp.MustCompile(`^DROP KEY (\w+)$`)
	repeatable = regexp.MustCompile(`^(MODIFY COLUMN \w+ |ROW_FORMAT = |COMMENT = )`)
)

// errUnknownStatement refuses a statement that remaining does not know.
var errUnknownStatement = errors.New("a migration on MySQL may not have such a statement: it could not be repeated")

// errForeignTable reports a table that has the name of a clockd table, but not its columns.
var errForeignTable = errors.New("a table of this name is not clockd's")

// remaining returns the part of a statement that is still to run: all of it, some of its clauses, or "". A repeatable
// statement or clause always runs again.
func (p schemaProbe) remaining(ctx context.Context, statement string) (string, error) {
	statement = strings.TrimSpace(comment.ReplaceAllString(statement, ""))
	if m := createTable.FindStringSubmatch(statement); m != nil {
		return p.remainingTable(ctx, statement, m[1], m[2])
	}
	if m := alterTable.FindStringSubmatch(statement); m != nil {
		return p.remainingClauses(ctx, m[1], clausesOf(m[2]))
	}
	switch {
	case createView.MatchString(statement):
		return createView.ReplaceAllString(statement, "CREATE OR REPLACE VIEW "), nil
	case dropView.MatchString(statement):
		return dropView.ReplaceAllString(statement, "DROP VIEW IF EXISTS "), nil
	case changeRows.MatchString(statement):
		return statement, nil
	}
	return "", errUnknownStatement
}

// remainingTable returns the statement, or "" if the table exists. A table of that name without clockd's columns is
// errForeignTable.
func (p schemaProbe) remainingTable(ctx context.Context, statement, table, definition string) (string, error) {
	has, err := p.tableOf(ctx, table)
	if err != nil || len(has.columns) == 0 {
		return statement, err
	}
	for _, m := range column.FindAllStringSubmatch(definition, -1) {
		if !slices.Contains(notColumn, m[1]) && !slices.Contains(has.columns, m[1]) {
			return "", fmt.Errorf("table %s has no column %s: %w", table, m[1], errForeignTable)
		}
	}
	return "", nil
}

// clausesOf splits the body of an ALTER TABLE at the commas between its clauses.
func clausesOf(text string) (clauses []string) {
	depth, from := 0, 0
	for i, r := range text + "," {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			clauses = append(clauses, strings.TrimSpace(text[from:i]))
			from = i + 1
		}
	}
	return clauses
}

// remainingClauses returns an ALTER TABLE with the clauses that are still to run, or "" if all have run.
func (p schemaProbe) remainingClauses(ctx context.Context, table string, clauses []string) (string, error) {
	var left []string
	for _, clause := range clauses {
		done, err := p.isDone(ctx, table, clause, clauses)
		if err != nil {
			return "", fmt.Errorf("check whether %q has run: %w", clause, err)
		}
		if !done {
			left = append(left, clause)
		}
	}
	if len(left) == 0 {
		return "", nil
	}
	return "ALTER TABLE " + table + " " + strings.Join(left, ", "), nil
}

// isDone reports whether the schema shows that clause has run. all holds the clauses of the same ALTER TABLE.
func (p schemaProbe) isDone(ctx context.Context, table, clause string, all []string) (bool, error) {
	if m := addColumn.FindStringSubmatch(clause); m != nil {
		return p.hasColumn(ctx, table, m[1])
	}
	if m := dropColumn.FindStringSubmatch(clause); m != nil {
		has, err := p.hasColumn(ctx, table, m[1])
		return !has, err
	}
	if m := addKey.FindStringSubmatch(clause); m != nil {
		has, err := p.keyColumns(ctx, table, m[1])
		return slices.Equal(has, strings.FieldsFunc(m[2], func(r rune) bool { return strings.ContainsRune(", \n\t", r) })), err
	}
	if m := dropKey.FindStringSubmatch(clause); m != nil {
		return p.isDropped(ctx, table, m[1], all)
	}
	if repeatable.MatchString(clause) {
		return false, nil
	}
	return false, errUnknownStatement
}

// isDropped reports whether the key is gone, or whether a clause has already added it again.
func (p schemaProbe) isDropped(ctx context.Context, table, key string, all []string) (bool, error) {
	for _, clause := range all {
		if m := addKey.FindStringSubmatch(clause); len(m) > 1 && m[1] == key {
			if done, err := p.isDone(ctx, table, clause, nil); done || err != nil {
				return done, err
			}
		}
	}
	has, err := p.keyColumns(ctx, table, key)
	return len(has) == 0, err
}

func (p schemaProbe) hasColumn(ctx context.Context, table, column string) (bool, error) {
	has, err := p.tableOf(ctx, table)
	return slices.Contains(has.columns, column), err
}

// keyColumns returns the columns of an index in order; nil if there is no such index.
func (p schemaProbe) keyColumns(ctx context.Context, table, key string) ([]string, error) {
	has, err := p.tableOf(ctx, table)
	return has.keys[key], err
}

// tableDefinition is what SHOW CREATE TABLE says of a table; zero if there is no such table.
type tableDefinition struct {
	columns []string            // in order
	keys    map[string][]string // columns of each index in order, by the index's name; without the primary key
}

// Lines of SHOW CREATE TABLE.
var (
	columnLine = regexp.MustCompile("(?m)^  `([^`]+)` ")
	keyLine    = regexp.MustCompile("(?m)^  (?:UNIQUE )?KEY `([^`]+)` \\(([^)]+)\\)")
)

// tableOf reads the definition of a table. It does not ask information_schema, whose queries need temporary tables:
// MariaDB 10.11 crashes when another server with the same tmpdir starts and deletes these tables (signal 11 in
// ha_maria::drop_table).
func (p schemaProbe) tableOf(ctx context.Context, table string) (tableDefinition, error) {
	text, err := p.showCreate(ctx, table)
	if err != nil || text == "" {
		return tableDefinition{}, err
	}
	d := tableDefinition{keys: map[string][]string{}}
	for _, m := range columnLine.FindAllStringSubmatch(text, -1) {
		d.columns = append(d.columns, m[1])
	}
	if len(d.columns) == 0 { // otherwise every column and key would count as dropped
		return d, fmt.Errorf("the definition of table %s has no column that clockd can read: %w", table,
			errForeignTable)
	}
	for _, m := range keyLine.FindAllStringSubmatch(text, -1) {
		d.keys[m[1]] = strings.Split(strings.ReplaceAll(m[2], "`", ""), ",")
	}
	return d, nil
}

// showCreate returns the text of SHOW CREATE TABLE, "" if there is no such table. A view of that name is errForeignTable.
func (p schemaProbe) showCreate(ctx context.Context, table string) (text string, err error) {
	rows, err := p.db.QueryContext(ctx, "SHOW CREATE TABLE "+table)
	if hasNumber(err, errNoSuchTable) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the definition of table %s: %w", table, err)
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	if err == nil && len(columns) != 2 {
		return "", fmt.Errorf("%s is a view: %w", table, errForeignTable)
	}
	var name string
	for err == nil && rows.Next() {
		err = rows.Scan(&name, &text)
	}
	return text, errors.Join(err, rows.Err())
}
