// Package storetest is the definition of a store: the conformance suite that every adapter runs in full, against the
// contract of package store alone. What a test here demands is promised; what none demands is not.
//
// An adapter's tests are an Engine and a few lines:
//
//	func TestMain(m *testing.M)       { storetest.Main(m) }
//	func TestStore(t *testing.T)      { storetest.Run(t, engine()) }
//	func BenchmarkStore(b *testing.B) { storetest.Benchmark(b, engine()) }
//
// # Rules of the suite
//
//  1. Every subtest begins with an empty, migrated database and a store of its own.
//  2. Instants are parameters: nothing waits for the wall clock, nothing sleeps. Deadlines only bound what must not block.
//  3. Tests of claims run once transactional, where the engine holds claims, and once two-phase.
//  4. Rows that the contract has no call for (paused ones) are made with plain SQL, the same on all engines.
//  5. The process runs in Europe/Oslo (Main) and the engine's sessions at -08:00 (Database.Open), so that a conversion
//     through a local time shows.
package storetest
