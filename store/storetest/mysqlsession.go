package storetest

import (
	"context"
	"database/sql"
)

// MySQLSession is a session of a MySQL or MariaDB server.
type MySQLSession struct {
	ID        int64
	Host      string // address and port of the client
	Command   string // "Query" while a statement runs
	State     string
	Statement string // the running statement
}

// MySQLSessions lists the sessions that use the pool's database. It does not query information_schema, because MySQL
// 9.7 refuses that while any running statement contains bytes that are not text (error 3854).
func MySQLSessions(ctx context.Context, db *sql.DB) (found []MySQLSession, err error) {
	var database string
	if err := db.QueryRowContext(ctx, "SELECT DATABASE()").Scan(&database); err != nil {
		return nil, err
	}
	rows, err := db.QueryContext(ctx, "SHOW FULL PROCESSLIST")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	columns, err := rows.Columns()
	for err == nil && rows.Next() {
		var s MySQLSession
		var user, uses, seconds, state, statement sql.NullString
		fields := []any{&s.ID, &user, &s.Host, &uses, &s.Command, &seconds, &state, &statement}
		for len(fields) < len(columns) { // MariaDB has one column more
			fields = append(fields, new(sql.NullString))
		}
		err = rows.Scan(fields...)
		if s.State, s.Statement = state.String, statement.String; uses.String == database {
			found = append(found, s)
		}
	}
	if err != nil {
		return nil, err
	}
	return found, rows.Err()
}
