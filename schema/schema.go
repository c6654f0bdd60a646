// Package schema embeds the migrations of each engine, for goose. Migrations are append-only: a released file is never
// changed, the next one is added.
package schema

import "embed"

// Migrations of each engine, as NNNNN_name.sql at the root of the named folder.
var (
	//go:embed mysql/*.sql
	MySQL embed.FS
	//go:embed postgresql/*.sql
	PostgreSQL embed.FS
	//go:embed sqlite/*.sql
	SQLite embed.FS
)
