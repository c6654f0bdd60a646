package mysql

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/clockd/clockd/store/mysql/internal/dbsqlc"
)

// repeatedStatements are the statements that run as a bulk.
var repeatedStatements = []string{
	dbsqlc.InsertAlarms, dbsqlc.RewriteAlarms, dbsqlc.AmendAlarms, dbsqlc.SettleAlarms, dbsqlc.InsertAttempts,
	dbsqlc.InsertShards, dbsqlc.NextApplications,
	dbsqlc.LockAlarms, dbsqlc.LockAlarmsBriefly, dbsqlc.LockAlarmsWaiting, dbsqlc.LockAlarmsAtOnce, dbsqlc.ReadAlarms,
	dbsqlc.ListDue, dbsqlc.ListDueExcept, dbsqlc.ListDueOnly, dbsqlc.ListDueOfApplication,
	dbsqlc.ListDueEnd, dbsqlc.ListOldest, dbsqlc.ListFinished,
	dbsqlc.RestoreAlarms, dbsqlc.PutZones, dbsqlc.PutRepeating, dbsqlc.AddActs,
}

func TestStatementsOfManyRowsHaveTheirMarkers(t *testing.T) {
	for _, query := range repeatedStatements {
		parts := split(query)
		name, _, _ := strings.Cut(query, "\n")
		text := parts.expand("", 3)
		if _, statement, _ := strings.Cut(text, "\n"); strings.Contains(statement, "FIRST") ||
			strings.Contains(statement, "NEXT") {
			t.Errorf("%s: a marker reaches the server in %s", name, text)
		}
		one, three := paramsIn(parts.expand("", 1)), paramsIn(text)
		if next := paramsIn(parts.next); next == 0 || three != one+2*next {
			t.Errorf("%s: %d parameters for one row, %d for three, %d for a further row", name, one, three, next)
		}
	}
	files, err := filepath.Glob("../../queries/mysql/*.sql")
	ok(t, err, "list")
	marked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		ok(t, err, "read")
		marked += strings.Count(string(text), "/*FIRST*/")
	}
	if marked != len(repeatedStatements) {
		t.Errorf("%d statements have markers, %d are tested", marked, len(repeatedStatements))
	}
}

func TestStatementWithoutMarkersPanics(t *testing.T) {
	for _, query := range []string{"VALUES (?)/*NEXT, FIRST*/", "VALUES /*FIRST*/(?)", "VALUES /*FIRST*/(?)/*NEXT, FIRST"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", query)
				}
			}()
			split(query)
		}()
	}
}

func TestBulkPutsTheRowsBetweenTheOtherArguments(t *testing.T) {
	r := &recorder{}
	b := bulk{DBTX: r, rows: 2, args: []any{"a", "b", "c", "d"}, prefix: "FAST "}
	_, _ = b.ExecContext(t.Context(), "PUT ? /*FIRST*/(IF(?), ?, ?)\n/*NEXT, (?, ?)*/ ON ?", 1, 2, "x", "y", 3)
	if want := "FAST PUT ? (IF(?), ?, ?), (?, ?) ON ?"; r.query != want {
		t.Errorf("statement %q, want %q", r.query, want)
	}
	if want := []any{1, 2, "a", "b", "c", "d", 3}; !slices.Equal(r.args, want) {
		t.Errorf("arguments %v, want %v", r.args, want)
	}
}

// recorder is a DBTX that keeps the statement and its arguments, and fails.
type recorder struct {
	dbsqlc.DBTX
	query string
	args  []any
}

func (r *recorder) ExecContext(_ context.Context, query string, args ...any) (sql.Result, error) {
	r.query, r.args = query, args
	return nil, errors.New("recorded")
}

func TestGeneratedMethodsPassTheirFieldsInOrder(t *testing.T) {
	q := dbsqlc.New()
	passInOrder(t, func(db dbsqlc.DBTX, p dbsqlc.InsertAlarmsParams) { _, _ = q.InsertAlarms(t.Context(), db, p) })
	passInOrder(t, func(db dbsqlc.DBTX, p dbsqlc.RewriteAlarmsParams) { _, _ = q.RewriteAlarms(t.Context(), db, p) })
	passInOrder(t, func(db dbsqlc.DBTX, p dbsqlc.AmendAlarmsParams) { _, _ = q.AmendAlarms(t.Context(), db, p) })
	passInOrder(t, func(db dbsqlc.DBTX, p dbsqlc.SettleAlarmsParams) { _, _ = q.SettleAlarms(t.Context(), db, p) })
	passInOrder(t, func(db dbsqlc.DBTX, p dbsqlc.InsertAttemptsParams) { _ = q.InsertAttempts(t.Context(), db, p) })
}

// passInOrder calls a generated method with another value in each field, and checks the order of the arguments.
func passInOrder[P any](t *testing.T, call func(db dbsqlc.DBTX, p P)) {
	t.Helper()
	var p P
	fields := reflect.ValueOf(&p).Elem()
	for i := range fields.NumField() {
		switch field := fields.Field(i).Addr().Interface().(type) {
		case *int64:
			*field = int64(i)
		case *string:
			*field = string(rune('a' + i))
		case *[]byte:
			*field = []byte{byte(i)}
		case *sql.NullInt64:
			*field = sql.NullInt64{Int64: int64(i), Valid: true}
		case *any:
			*field = i
		default:
			t.Fatalf("%T: a field has the type %T", p, field)
		}
	}
	r := &recorder{}
	call(r, p)
	if len(r.args) != fields.NumField() {
		t.Fatalf("%T: %d arguments of %d fields", p, len(r.args), fields.NumField())
	}
	for i, arg := range r.args {
		if want := fields.Field(i).Interface(); !reflect.DeepEqual(arg, want) {
			t.Errorf("%T: argument %d is %v, want %s %v", p, i, arg, fields.Type().Field(i).Name, want)
		}
	}
}
