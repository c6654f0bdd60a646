package engine

import (
	"database/sql"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Params fills the parameters P of a statement for a single row from the columns of R, which is Row, AttemptRow or
// NewActRow. P is a struct of generated code. The package comment has the rules.
type Params[R, P any] struct{ bindings[R, P] }

// NewParams returns the Params of P. It panics if P does not match R.
func NewParams[R, P any]() *Params[R, P] {
	return &Params[R,
		P]{newBindings[R, P](nil, func(b *binding[R, P], from, to any) step { return valueStep(from, to) })}
}

// Of returns the parameters of a row. read sets the columns of the row, and in old those of the row before the change.
func (p *Params[R, P]) Of(read func(row, old *R)) P {
	b := p.take()
	defer p.give(b)
	read(&b.row, &b.old)
	b.copyRow()
	return b.params
}

// Arrays fills the parameters P of a statement for many rows. Each field of P is the array of one column. In arrays -1
// stands for NULL.
type Arrays[R, P any] struct{ bindings[R, P] }

// NewArrays returns the Arrays of P. It panics if P does not match R.
func NewArrays[R, P any]() *Arrays[R, P] {
	return &Arrays[R,
		P]{newBindings[R, P](nil, func(b *binding[R, P], from, to any) step { return arrayStep(&b.rows, from, to) })}
}

// Of returns the parameters of n rows. read sets the columns of the row at the index, and in old those of the row
// before the change.
func (p *Arrays[R, P]) Of(n int, read func(i int, row, old *R)) P {
	b := p.take()
	defer p.give(b)
	b.rows = n
	for i := range n {
		read(i, &b.row, &b.old)
		b.copyRow()
	}
	return b.params
}

// Args returns the columns of rows as arguments, row by row, in the order of the fields of P. Generated methods pass
// their arguments in that order.
type Args[R, P any] struct {
	bindings[R, P]
	others int
}

// NewArgs returns the Args of P. null is the argument for NULL. others names the fields of P that are not columns of a
// row; the caller passes them. NewArgs panics if P does not match R.
func NewArgs[R, P any](null any, others ...string) *Args[R, P] {
	makeStep := func(b *binding[R, P], from, to any) step { return argStep(&b.args, null, from, to) }
	return &Args[R, P]{newBindings[R, P](others, makeStep), len(others)}
}

// Len returns the number of arguments of a row.
func (p *Args[R, P]) Len() int {
	b := p.take()
	defer p.give(b)
	return len(b.steps)
}

// Of returns the arguments of n rows, with capacity for the others. read sets the columns of the row at the index.
func (p *Args[R, P]) Of(n int, read func(i int, row *R)) []any {
	b := p.take()
	defer p.give(b)
	b.args = make([]any, 0, n*len(b.steps)+p.others)
	for i := range n {
		read(i, &b.row)
		b.copyRow()
	}
	return b.args
}

// AllColumns panics if a column of R, except the named ones, is no field of P. A statement that copies whole rows
// passes it when the program starts, so that no new column is left out.
func AllColumns[R, P any](except ...string) {
	row, params := reflect.TypeFor[R](), reflect.TypeFor[P]()
	for i := range row.NumField() {
		name := row.Field(i).Name
		if _, has := params.FieldByName(name); !has && !slices.Contains(except, name) {
			panic(fmt.Sprintf("engine: the column %s of %s is missing in %s", name, row, params))
		}
	}
}

// bindings holds unused bindings, so that a row costs neither reflection nor an allocation.
type bindings[R, P any] struct{ unused *sync.Pool }

// stepMaker returns the step from a column to a parameter, both given as pointers; nil if their types do not match.
type stepMaker[R, P any] func(b *binding[R, P], from, to any) step

func newBindings[R, P any](others []string, makeStep stepMaker[R, P]) bindings[R, P] {
	unused := &sync.Pool{New: func() any { return newBinding(others, makeStep) }}
	unused.Put(newBinding(others, makeStep)) // panics when the program starts, not when a statement runs
	return bindings[R, P]{unused}
}

func (p bindings[R, P]) take() *binding[R, P] {
	b, _ := p.unused.Get().(*binding[R, P])
	return b
}

// give takes a binding back. It drops the values, which may be large.
func (p bindings[R, P]) give(b *binding[R, P]) {
	*b = binding[R, P]{steps: b.steps}
	p.unused.Put(b)
}

// binding copies the columns of its own row to its own parameters. Its steps hold pointers to both.
type binding[R, P any] struct {
	row, old R
	rows     int
	params   P
	args     []any
	steps    []step
}

func (b *binding[R, P]) copyRow() {
	for _, s := range b.steps {
		s.copy()
	}
}

// newBinding makes a step for each field of P except others.
func newBinding[R, P any](others []string, makeStep stepMaker[R, P]) *binding[R, P] {
	b := &binding[R, P]{}
	params := reflect.ValueOf(&b.params).Elem()
	for _, name := range others {
		if !params.FieldByName(name).IsValid() {
			panic(fmt.Sprintf("engine: %T has no field %s", b.params, name))
		}
	}
	for i := range params.NumField() {
		name := params.Type().Field(i).Name
		if slices.Contains(others, name) {
			continue
		}
		column, isOld := strings.CutPrefix(name, "Old")
		row := &b.row
		if isOld {
			row = &b.old
		}
		from := reflect.ValueOf(row).Elem().FieldByName(column)
		if !from.IsValid() {
			panic(fmt.Sprintf("engine: %T.%s is no column of %T", b.params, name, b.row))
		}
		s := makeStep(b, from.Addr().Interface(), params.Field(i).Addr().Interface())
		if s == nil {
			panic(fmt.Sprintf("engine: %T.%s has type %s, its column %s", b.params, name, params.Field(i).Type(),
				from.Type()))
		}
		b.steps = append(b.steps, s)
	}
	return b
}

// step copies one column of the current row.
type step interface{ copy() }

// setValue sets a parameter of the column's type.
type setValue[T any] struct{ from, to *T }

func (s setValue[T]) copy() { *s.to = *s.from }

func valueStep(from, to any) step {
	switch from := from.(type) {
	case *int64:
		return valueStepOf(from, to)
	case *string:
		return valueStepOf(from, to)
	case *[]byte:
		return valueStepOf(from, to)
	case *sql.NullInt64:
		return valueStepOf(from, to)
	}
	return nil
}

func valueStepOf[T any](from *T, to any) step {
	if to, ok := to.(*T); ok {
		return setValue[T]{from: from, to: to}
	}
	return nil
}

// addToArray appends to the array of a column. The first value allocates the array for all rows.
type addToArray[T any] struct {
	rows *int
	from *T
	to   *[]T
}

func (s addToArray[T]) copy() {
	if *s.to == nil {
		*s.to = make([]T, 0, *s.rows)
	}
	*s.to = append(*s.to, *s.from)
}

// addInstant is addToArray for a nullable column: -1, the value of clock.NoInstant, for NULL.
type addInstant struct {
	rows *int
	from *sql.NullInt64
	to   *[]int64
}

func (s addInstant) copy() {
	if *s.to == nil {
		*s.to = make([]int64, 0, *s.rows)
	}
	*s.to = append(*s.to, int64(FromNull(*s.from)))
}

func arrayStep(rows *int, from, to any) step {
	switch from := from.(type) {
	case *int64:
		return arrayStepOf(rows, from, to)
	case *string:
		return arrayStepOf(rows, from, to)
	case *[]byte:
		return arrayStepOf(rows, from, to)
	case *sql.NullInt64:
		if to, ok := to.(*[]int64); ok {
			return addInstant{rows: rows, from: from, to: to}
		}
	}
	return nil
}

func arrayStepOf[T any](rows *int, from *T, to any) step {
	if to, ok := to.(*[]T); ok {
		return addToArray[T]{rows: rows, from: from, to: to}
	}
	return nil
}

// addArg appends an argument.
type addArg[T any] struct {
	from *T
	args *[]any
}

func (s addArg[T]) copy() { *s.args = append(*s.args, *s.from) }

// addNullable appends the argument of a nullable column.
type addNullable struct {
	from *sql.NullInt64
	args *[]any
	null any
}

func (s addNullable) copy() {
	if s.from.Valid {
		*s.args = append(*s.args, s.from.Int64)
	} else {
		*s.args = append(*s.args, s.null)
	}
}

// argStep accepts a parameter of the column's type, and a parameter of type any: sqlc does not know the type of every
// expression.
func argStep(args *[]any, null, from, to any) step {
	if _, untyped := to.(*any); !untyped && reflect.TypeOf(from) != reflect.TypeOf(to) {
		return nil
	}
	switch from := from.(type) {
	case *int64:
		return addArg[int64]{from: from, args: args}
	case *string:
		return addArg[string]{from: from, args: args}
	case *[]byte:
		return addArg[[]byte]{from: from, args: args}
	case *sql.NullInt64:
		return addNullable{from: from, args: args, null: null}
	}
	return nil
}
