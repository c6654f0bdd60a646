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
//  5. Correctness never depends on who owns a shard: two loaders of one shard cost work, no more. Leases only keep nodes from
//     doing the same work.
//  6. A node drops a shard only when it saw that somebody else has it, and has rung on for a moment where it gave it up itself:
//     never because of its own clock. What stays in its hands stays in the heap, and is read once more.
//  7. All leases are measured by the lower bound of the database's clock, so that none is taken before its end; a node
//     that does not know that time neither renews nor takes.
//  8. How many shards a node is to have follows from who lives alone, and nobody takes more: the shares come to rest.
//
// # A shard, as one node sees it
//
//	            Take: free, or its lease ended                   surplus: Yield
//	somebody's ───────────────────────────────▶ owned ────────────────────────────────▶ given up, still rung
//	or free  ◀───────────────────────────────────┘ │  ◀──────────────────────────────────┘  │
//	   ▲       another has it: dropped at once     │         nobody else has come           │
//	   │                                           │ stop: Leave, still rung                │ somebody has it, and
//	   │                                           ▼                                        │ a second has passed
//	   └───────────────────────────────── others have all, or a second has passed ◀──────── ┘
//
// Where rings go to subscribers, a shard's owner rings what it has a subscriber for and holds what nobody has one for; what
// only others have subscribers for, the one of them that a hash prefers loads beside the owner.
//
// # What fails, what happens, who heals it
//
//	database down            the page is lost, the watermark falls back    the loader tries again, 100 ms to 5 s with jitter
//	heap's share full        the longest queue is cut, its application     read on when the queue or the share is down
//	                         is behind                                     to half
//	wake-up lost             the row is overdue when the sweep comes       the owner's sweep, within a second
//	shards change hands      entries of lost shards are dropped            the new owner loads from the beginning
//	node leaves              its shards are free, it rings on              others take them within two looks (0.5 s)
//	node dies                its leases end 1 to 1.5 s later                others take them at their next look, 0.25 s
//	node is stopped, goes on others have its shards; what it claimed was   it sees that, drops them, and gets its share
//	                         rolled back, and it writes no late ring       again; the ring loop's limits, see package ring
//	two with one name        two incarnations share like any others        a person: a warning, readiness, GET /v1/nodes
//	database down            no lease can be renewed or taken: all ring    whose own leases ended meanwhile takes nothing
//	                         on what they have                             from others for 1 s: they come back too
//	subscriber elsewhere     the owner leaves the application's rows to    subscribers come or go: the node's row at once,
//	                         a node that has one                           others at their next look; all is read again
//	notices fail             wake-ups are dropped and counted              the sweep; after it everything is read again
package preload
