package engine

import (
	"database/sql"
	"reflect"
	"strings"
	"testing"
)

type boundRow struct {
	ID, State int64
	Note      string
	Payload   []byte
	RungAt    sql.NullInt64
}

type boundParams struct {
	Note     string
	Payload  []byte
	RungAt   sql.NullInt64
	ID       int64
	OldState int64
}

type boundArrays struct {
	Note     []string
	Payload  [][]byte
	RungAt   []int64
	ID       []int64
	OldState []int64
}

type boundArgs struct {
	Build    int64
	Note     any
	RungAt   sql.NullInt64
	ID       int64
	OldState int64
}

var boundRows = []boundRow{
	{ID: 1000, State: 2, Note: "one", Payload: []byte{1}, RungAt: sql.NullInt64{Int64: 3000, Valid: true}},
	{ID: 2000, State: 3, Note: "two", Payload: []byte{}},
}

func TestParamsTakeColumnsByName(t *testing.T) {
	params := NewParams[boundRow, boundParams]()
	got := params.Of(func(row, old *boundRow) { *row, *old = boundRows[0], boundRows[1] })
	want := boundParams{Note: "one", Payload: []byte{1}, RungAt: sql.NullInt64{Int64: 3000, Valid: true}, ID: 1000,
		OldState: 3}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	got = params.Of(func(row, _ *boundRow) { *row = boundRows[1] })
	if want = (boundParams{Note: "two", Payload: []byte{}, ID: 2000}); !reflect.DeepEqual(got, want) {
		t.Errorf("second row: got %+v, want %+v", got, want)
	}
}

func TestArraysOfTwoCallsShareNoMemory(t *testing.T) {
	arrays := NewArrays[boundRow, boundArrays]()
	read := func(i int, row, old *boundRow) { *row, *old = boundRows[i], boundRows[1-i] }
	want := boundArrays{
		Note: []string{"one", "two"}, Payload: [][]byte{{1}, {}}, RungAt: []int64{3000, -1}, ID: []int64{1000, 2000},
		OldState: []int64{3, 2},
	}
	got := arrays.Of(2, read)
	arrays.Of(2, func(i int, row, old *boundRow) { read(1-i, row, old) })
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestArgsFollowTheFieldsOfTheParameters(t *testing.T) {
	for _, null := range []any{nil, int64(-1)} {
		args := NewArgs[boundRow, boundArgs](null, "Build", "OldState")
		got := args.Of(2, func(i int, row *boundRow) { *row = boundRows[i] })
		want := []any{"one", int64(3000), int64(1000), "two", null, int64(2000)}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("null %v: got %v, want %v", null, got, want)
		}
		if args.Len() != 3 || cap(got) < len(got)+2 {
			t.Errorf("%d arguments a row, capacity %d: no room for Build and OldState", args.Len(), cap(got))
		}
	}
}

func TestParametersThatMatchNoColumnPanic(t *testing.T) {
	type misnamed struct{ Ring int64 }
	type mistyped struct{ Note int64 }
	for want, bind := range map[string]func(){
		"misnamed.Ring is no column":        func() { NewParams[boundRow, misnamed]() },
		"mistyped.Note has type int64":      func() { NewParams[boundRow, mistyped]() },
		"boundParams.Note has type string":  func() { NewArrays[boundRow, boundParams]() },
		"boundArrays.Note has type []strin": func() { NewArgs[boundRow, boundArrays](nil) },
		"boundParams has no field Build":    func() { NewArgs[boundRow, boundParams](nil, "Build") },
	} {
		func() {
			defer func() {
				if got, _ := recover().(string); !strings.Contains(got, want) {
					t.Errorf("panic %q, want %q", got, want)
				}
			}()
			bind()
		}()
	}
}
