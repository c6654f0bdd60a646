package main

import (
	"fmt"
	"text/tabwriter"
)

// table prints rows in columns for people. It prints the heading with the first row, so an error before it has no
// heading.
type table struct {
	columns *tabwriter.Writer
	heading string // not printed yet; "" if it is printed
}

func newTable(heading string) *table {
	return &table{columns: tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0), heading: heading}
}

// row adds a row. The format has a tab between two columns.
func (t *table) row(format string, values ...any) error {
	t.head()
	_, err := fmt.Fprintf(t.columns, format+"\n", values...)
	return err
}

func (t *table) head() {
	if t.heading != "" {
		_, _ = fmt.Fprintln(t.columns, t.heading)
		t.heading = ""
	}
}

// end prints the rest. A table without a row has its heading alone.
func (t *table) end() error {
	t.head()
	return t.columns.Flush()
}

// abort prints the rows so far, before an error.
func (t *table) abort() error { return t.columns.Flush() }
