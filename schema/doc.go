// Package schema embeds the migrations of each engine, for goose. The files of an engine are NNNNN_name.sql in the
// engine's directory.
//
// # Invariants
//
//  1. Migrations are append-only. A released file never changes, and a change of the schema is a new file. There is no
//     way back: a file has no statements that undo it, and a backup holds the older schema.
//  2. The header of each new file says whether old builds, which do not know the file, may run beside new builds: "--
//     side by side: yes, because ..." or "-- side by side: no, because ...". After "no", the first statement is "UPDATE
//     build_level SET oldest = N" (store.BuildLevel).
//  3. A killed migration on MySQL can go on. MySQL commits each change of the schema by itself, so some changes stay
//     behind. Package store/mysql therefore looks up in the schema whether a statement has run. It can do so for CREATE
//     TABLE, ALTER TABLE, CREATE VIEW and DROP VIEW. It repeats UPDATE, DELETE and INSERT IGNORE: write them so that a
//     repetition changes nothing. It refuses all other statements.
//  4. TiDB runs the migrations of MySQL. An ALTER TABLE names each column and each key once, and the condition of a
//     join has no subquery. A test in tools/tidb checks both.
//  5. A distributed database runs the migrations of postgresql and citus together, in the order of their versions. So
//     no version is in both directories. After version 7 of citus, a migration of postgresql changes distributed tables
//     there: a unique key must contain shard, and a view that joins alarm with ring_attempt must join by shard too, in
//     a file of citus. A new table is one of the coordinator.
//  6. The first files make the schema of version 0.1, and say in their header "because only a new database gets it".
//     Builds from before made it in more steps, the first of which was version 1. The numbers of these files are such
//     that a database with all steps is up to date. One with only some of them is refused.
package schema
