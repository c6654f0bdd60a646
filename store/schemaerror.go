package store

import "fmt"

// SchemaError is the error of a migration that stopped before its end. The next start continues there.
type SchemaError struct {
	Migration string // file name
	Statement string // beginning of the statement that failed or was not started
	Cause     error
}

// Error names the migration, the statement and the cause.
func (e *SchemaError) Error() string {
	return fmt.Sprintf("the schema is not up to date: migration %s, statement %q: %v", e.Migration, e.Statement,
		e.Cause)
}

// Unwrap returns the cause.
func (e *SchemaError) Unwrap() error { return e.Cause }
