// Package preload brings alarms that are due soon from the database into the heap, and nothing else: it writes no row. A
// loader a group of shards reads them in time order up to a window ahead; its watermark says how far.
//
//	              watermark                       horizon = now + Window
//	──────────────────┼──────────────────────────────┼─────────────────▶ next_try_time
//	all of it was     │ the next page is read from   │ not yet of interest
//	offered to the    │ here                         │
//	heap              │                              │
//
// The heap leaves out what it has no room for, an application's rows from some position on. The loader remembers the
// position (the application is behind) and reads on from there when the heap wants the application's rows; the watermark
// goes on meanwhile, so that one application's backlog does not keep the others' rows from being read.
//
// # Invariants
//
//  1. Every committed row before the watermark is in the heap, was popped from it, or is at or after the position from which
//     its application is behind: it was offered by a page or by who committed it. The watermark is raised, and an application's
//     position forgotten, before a page is read, so a commit meanwhile is offered by its writer; afterwards they fall back to
//     what was really read and to what the heap left out.
//  2. What was committed during a read is newer than what was read: of those ids the page says nothing.
//  3. Reading is from the due index alone; no row is locked or written.
//  4. A sweep a second reads what is overdue below the watermark, without a lower bound on time, and heals whatever was
//     missed: a lost wake-up, a claim that died, a COMMIT without an answer. It goes round in pages, so that rows that stay
//     overdue (held applications) cannot hide others, and looks each time at what came due since the last.
//  5. Correctness never depends on who owns a shard: two loaders of one shard cost work, no more.
//
// # What fails, what happens, who heals it
//
//	database down            the page is lost, the watermark falls back    the loader tries again, 100 ms to 5 s with jitter
//	heap's share full        the longest queue is cut, its application     read on when the queue or the share is down
//	                         is behind                                     to half
//	wake-up lost             the row is overdue when the sweep comes       the sweep, within a second
//	shards change hands      entries of lost shards are dropped            the new owner loads from the beginning
package preload
