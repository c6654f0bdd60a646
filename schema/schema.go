// Package schema embeds the migrations of each engine, for goose. Migrations are append-only: a released file never changes, and a change of
// the schema is a new file.
//
// The header of each new file says whether old builds, which do not know the file, may run beside new builds: "-- side by side: yes, because
// ..." or "-- side by side: no, because ...". After "no", the first statement is "UPDATE build_level SET oldest = N" (store.BuildLevel).
//
// MySQL commits each change of the schema by itself, so a killed migration leaves some of its changes behind. Package store/mysql therefore
// looks up in the schema whether a statement has run. It can do so for CREATE TABLE, ALTER TABLE, CREATE VIEW and DROP VIEW. It repeats
// UPDATE, DELETE and INSERT IGNORE: write them so that a repetition changes nothing. It refuses all other statements.
package schema

import "embed"

// The migrations of each engine, as files NNNNN_name.sql in the engine's directory.
var (
	//go:embed mysql/*.sql
	MySQL embed.FS
	//go:embed postgresql/*.sql
	PostgreSQL embed.FS
	//go:embed sqlite/*.sql
	SQLite embed.FS
)
