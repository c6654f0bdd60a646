// Package sqlite keeps alarms in a SQLite file, on one machine without a database server.
//
// # How it works
//
// SQLite has one writer. All writes go through one connection, as short BEGIN IMMEDIATE transactions. So writes queue
// in this process, not at the file's lock. Reads have connections of their own and, in WAL mode, meet no lock at all.
// Each connection prepares a statement once, because parsing is the expensive part, and a group runs it for each row.
// Every commit is synced (synchronous FULL), so writes come in groups. A commit only appends to the write-ahead log.
// After 16 commits, or 10 s after fewer, the checkpointer copies the log into the file beside the writer. It stops the
// writer only for the last pages of a log of more than 64 MiB.
//
// A claim that held a transaction would stop every set until the broker has responded. So HoldsClaims is false, and
// claims are two-phase. A claim of alarms that ring at most once commits before the ring on every engine. A second
// process may use the same file: it waits for the file's lock, at most 5 s.
//
// # Invariants
//
//  1. A write transaction holds the file's lock from its first statement on. The rows that it reads cannot change, so
//     no row has to be locked, replayed or passed over.
//  2. A write transaction waits for nothing but the disk.
//  3. Migrations run under an exclusive lock of the file NAME.migrate-lock beside the database. Only migrations switch
//     the file to WAL mode.
//
// # Failures, effects, recovery
//
//	file's directory is missing     store.ErrSetup and ErrUnavailable, naming it          an operator makes the directory
//	disk full                       ErrUnavailable, the transaction is rolled back        sets work again when there is room
//	disk error in COMMIT            ErrUnconfirmed                                        the caller repeats
//	process dies                    the WAL is replayed or cut at the next start          the next start
//	log cannot be copied            logged; the log grows, and reads become slower        the next second tries again
//	another process writes for 5 s  ErrUnavailable (SQLITE_BUSY), nothing was written     the caller repeats
package sqlite
