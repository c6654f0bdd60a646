// Package sqlite keeps alarms in a SQLite file, for one machine on which nothing else is installed.
//
// # How it works
//
// SQLite has one writer. All writes go through one connection as short BEGIN IMMEDIATE transactions, so that they queue
// in this process and not at the file's lock; reads have connections of their own and, in WAL mode, meet no lock at all,
// so there are no pools apart for requests and for upkeep. A
// group is written by statements that are prepared once and run for each row: the parsing is what costs, not the rows. Every
// commit is synced (synchronous FULL), which is why batching is worth 15 times.
//
// A claim that held a transaction would stop every set until the broker has answered, so HoldsClaims is false: claims are
// two-phase, those of alarms that ring at most once by their nature. A second process on the same file is legal: the file's lock makes it wait, for 5 s at most.
//
// # Invariants
//
//  1. A transaction that writes holds the file's lock from its first statement on: what it reads cannot change, nothing
//     has to be locked, replayed or passed over.
//  2. Nothing is awaited in a write transaction but the disk.
//  3. Migrations run under an exclusive lock of the file NAME.migrate-lock beside the database, and only there is
//     the file made a WAL one.
//
// # What fails, what happens, who heals it
//
//	file's directory is missing     ErrUnavailable, naming the file                       a person
//	disk full                       ErrUnavailable, the transaction is rolled back        sets work again when there is room
//	disk error in COMMIT            ErrUnconfirmed                                        the caller repeats
//	process dies                    the WAL is replayed or cut at the next start          nobody
//	another process writes for 5 s  ErrUnavailable (SQLITE_BUSY), nothing was written     the caller repeats
package sqlite
