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
	// Citus has the migrations that only a distributed database needs. Their versions are not used in PostgreSQL.
	//go:embed citus/*.sql
	Citus embed.FS
)
