// Package archive moves alarms between databases through a file: Export writes all alarms and the settings of
// applications as NDJSON, and Import stores them in another database, of any engine.
//
// # The file
//
// Each line is a JSON object with one of these members:
//
//	clockd_export  the first line, and the first line after a resumption: version of the format, engine, when it was taken
//	settings       the current settings of an application
//	alarm          the columns of an alarm, with attempts beside it
//	end            the last line: how many alarms and settings the file has
//
// An alarm has the columns of the table alarm by name, in the form of the database: numbers for states, milliseconds
// for instants. The payload is base64. Columns that are 0, empty or NULL are left out, so a file of an older build has
// the defaults of columns that it does not know. The shard is left out, because each database computes it. The id is
// the id in the exported database: Export goes on after it.
//
// # Invariants
//
//  1. A file without its last line is not complete, and Import says so.
//  2. Row (package store/engine) is the only list of the columns. Each of its columns is in the file, except the shard.
//  3. Import refuses a line with a member or column that it does not know: a newer build wrote it.
//  4. Import refuses an alarm that no set, ring or answer could have left: for example a scheduled alarm that is never
//     due.
//  5. Import changes neither an alarm nor settings that exist. It counts the equal ones, and names the others. So it
//     may be repeated.
//  6. An alarm that names a destination gets the number that the destination has in the database of the import.
//  7. Export and Import hold one page of alarms in memory.
//
// # What consistent means
//
// One run of Export sees the database as of one moment: on MySQL, MariaDB and TiDB by a consistent snapshot, on
// PostgreSQL at REPEATABLE READ, on SQLite in a read transaction. On Citus each server has a moment of its own, so
// alarms of two servers may be of moments some milliseconds apart. A resumed export has a moment for each run. An alarm
// that was purged and set again between two runs is in the file twice; Import keeps the first and names the second.
//
// # Data that an export leaves out
//
// The ids of alarms, and so the message ids of their rings, the history of settings, tokens, and bulk jobs.
//
// # Failures
//
//	what fails                 what happens                                              repaired by
//	Export ends early          the file has no last line                                 export --resume goes on after its last alarm
//	Import ends early          the alarms before are stored                              import --merge, which passes over them
//	the database refuses a     Import returns the error, with the number of the last     a person, then import --merge
//	group of alarms            line whose alarm is stored
//	a destination has no       Import names it and ends                                  a person makes it, then import --merge
//	number there
//	a line cannot be read      Import names it and ends, or passes over it if told       a person
package archive
