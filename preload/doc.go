// Package preload brings alarms that are due soon from the database into the heap, and nothing else: it writes no row. A
// loader a group of shards reads them in time order up to a window ahead; its watermark says how far.
//
//	              watermark                       horizon = now + Window
//	──────────────────┼──────────────────────────────┼─────────────────▶ next_try_time
//	all of it was     │ the next page is read from   │ not yet of interest
//	offered to the    │ here, when the heap's share  │
//	heap              │ has room                     │
//
// # Invariants
//
//  1. Every committed row before the watermark was offered to the heap: by a page, or by who committed it. The watermark is
//     raised before a page is read, so a commit meanwhile is offered by its writer; it falls back to what was really read and
//     to what the heap had no room for.
//  2. Reading is from the due index alone; no row is locked or written.
//  3. A sweep a second reads what is overdue below the watermark, without a lower bound on time, and heals whatever was
//     missed: a lost wake-up, a claim that died, a COMMIT without an answer. It goes round in pages, so that rows that stay
//     overdue (held applications) cannot hide others.
//  4. Correctness never depends on who owns a shard: two loaders of one shard cost work, no more.
//
// # What fails, what happens, who heals it
//
//	database down            the page is lost, the watermark falls back    the loader tries again, 100 ms to 5 s with jitter
//	heap's share full        the watermark stays; later entries are cut    read again when the share is half empty
//	wake-up lost             the row is overdue when the sweep comes       the sweep, within a second
//	shards change hands      entries of lost shards are dropped            the new owner loads from the beginning
package preload
