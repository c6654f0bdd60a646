// Package storetest defines a store: it is the conformance suite that every adapter runs in full. It uses the contract
// of package store alone. The contract promises what a test here demands, and nothing more.
//
// An adapter's tests are an Engine and a few lines:
//
//	func TestMain(m *testing.M)       { storetest.Main(m) }
//	func TestStore(t *testing.T)      { storetest.Run(t, engine()) }
//	func TestStoreApart(t *testing.T) { storetest.RunApart(t, engine()) }
//	func TestStoreAlone(t *testing.T) { storetest.RunAlone(t, engine()) }
//	func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, engine()) }
//
// # Rules of the suite
//
//  1. Every subtest begins with an empty, migrated database. Its store is one that earlier subtests have used, unless
//     it would spoil it.
//  2. Instants are parameters. Tests do not wait for the wall clock and do not sleep. Deadlines only end calls that
//     must not block.
//  3. Tests of claims run once with held claims, if the engine can hold claims, and once with two-phase claims.
//  4. The contract has no call that pauses an alarm. Tests make such rows with plain SQL, the same on all engines.
//  5. The process runs in Europe/Oslo (Main) and the engine's sessions run at -08:00 (Database.Open). A conversion
//     through a local time would show.
package storetest
