// Package preload brings alarms that are due soon from the database into the heap. It never writes an alarm. Each loader reads the
// alarms of a group of shards in time order, up to a window ahead. Its watermark says how far it has read. The package also decides which
// node rings which shard (Keeper), and carries wake-ups between nodes (Courier, Bulletin).
//
//	              watermark                       horizon = now + Window
//	──────────────────┼──────────────────────────────┼─────────────────▶ next_try_time
//	all rows were     │ the next page is read from   │ rows are too far ahead
//	offered to the    │ here                         │ to be read
//	heap              │                              │
//
// The heap leaves out an application's rows from some position on when it has no room for them, or while the application is restricted.
// Then the application is behind. The loader remembers the position, and reads on from there when the heap has room for the
// application's rows. Meanwhile the watermark advances, so one application's backlog does not delay the rows of other applications.
//
// Thousands of applications may be behind at once. The heap names the applications for which it may have room, and the loader asks it only
// about these. The loader asks about all applications that are behind when the share has room for all of them, and once a sweep. Reads go
// round the positions of the applications for which there is room. One page serves every such application whose rows it holds. Pages for
// some applications are rationed: the useful rows of earlier pages pay for them. So a backlog costs a few reads a row, however many
// applications have one.
//
// # Order of reads
//
// Gaps are ranges below the watermark that were not read yet, in some shards. A loader that starts sets its watermark to 10 s before now,
// and the time before becomes a gap of all its shards. When the loader gains shards, the time before its watermark becomes a gap of these
// shards. The loader reads ahead from the watermark, and beside it, page by page, the gaps: the last 10 s first, then the last minutes,
// then the rest. So a backlog does not delay alarms that come due meanwhile.
//
// Where applications that are behind have many rows, the loader names up to 64 of them in its queries. Then the database reads past their
// rows in the due index. The number of index entries that it reads past is bounded for each page.
//
// Only gained shards are read from the beginning. The loader's other shards keep their watermark. When a subscriber comes, the loader
// reads its application's rows again, and only if this node did not ring them before. When a subscriber leaves, the loader reads nothing.
// After lost wake-ups it reads the recent and the coming alarms again, not the backlog.
//
// # Invariants
//
//  1. Each committed row before the watermark is in the heap, was popped from the heap, lies in a gap of its shard, or lies at or after
//     the position from which its application is behind. A page or the row's own commit offers it to the heap. Before a page is read,
//     the loader raises the watermark, or forgets the positions of the page's applications. So a commit during the read offers its own
//     rows. After the read, watermark and positions fall back to the end of the page and to the rows that the heap left out.
//  2. Rows that are committed during a read are newer than the rows that it returns. The loader drops the read's rows with the same ids.
//  3. Loaders read the due index only. They neither lock nor write rows.
//  4. A sweep every second reads overdue rows below the watermark. It finds every missed row: after a lost wake-up, a claim that died, or
//     a COMMIT without a reply. It goes round all overdue rows in pages of at most 1,024 index entries a shard. Beside a backlog it also
//     reads the alarms of the last 10 s. No write leaves a next_try_time before its own time, and none takes 10 s to commit. So each sweep
//     reaches every row whose wake-up was just lost.
//  5. Correctness never depends on who owns a shard. Two loaders of one shard only cost work. Leases only keep nodes from doing the same
//     work.
//  6. A node stops ringing a shard only when it has seen that another node owns the shard. If it yielded the shard itself, it also rings
//     on for Grace. It never stops because of its own clock. The entries of the shards that it keeps stay in its heap.
//  7. Leases end by the lower bound of the database's clock, so no node takes a lease before its end. A node that does not know this bound
//     neither renews nor takes leases.
//  8. A node's share of the shards follows from the living nodes and their abilities alone, and no node exceeds its share. So the shares
//     come to rest. The ablest nodes share all shards evenly. A node is outdone when another node lacks a strict subset of the abilities
//     that it lacks.
//  9. An ability belongs to the whole process: its loaders read ("read"), its lanes reach the broker ("amqp"). A node announces a lost
//     ability in its row at once. It yields its shards after 2 s without a break, only to an abler node, and otherwise goes on working. It
//     announces the recovery after 3 s without a break. While no node is abler, and while the database is unreachable, no shard moves
//     because of an ability.
//  10. At each look a node reads the oldest build level that may work on the database. A node whose build is older renews no lease, gives
//     its shards up and ends.
//
// # States of a shard at one node
//
//	            Take: free, or its lease ended                   surplus: Yield
//	another's ────────────────────────────────▶ owned ────────────────────────────────▶ yielded, still rung
//	or free  ◀───────────────────────────────────┘ │  ◀──────────────────────────────────┘  │
//	   ▲       another has it: dropped at once     │         no other node took it          │
//	   │                                           │ stop: Leave, still rung                │ another has it, and
//	   │                                           ▼                                        │ Grace has passed
//	   └───────────────────────────────── others have all, or Grace has passed ◀─────────── ┘
//
// With streams, rings go to subscribers. Then a shard's owner rings the applications that have a subscriber at the owner, and keeps the
// alarms of applications without any subscriber. The other applications only have subscribers at other nodes. For each shard and
// application, a hash chooses a preferred node among these nodes. The preferred node loads the application's rows of the shard, although
// another node owns it.
//
// # Failures
//
//	failure                  effect                                        recovery
//	database down            the page is lost, the watermark falls back    the loader tries again, 100 ms to 5 s with jitter
//	heap's share full        the heap cuts the longest queue, its          the loader reads on when the queue or the share has
//	                         application is behind                         shrunk to half
//	database clock set back  the watermark is lowered to the window's end  loaders read the rows past it when their time comes
//	... and a node is dead   its leases last until the old clock's time    others take them after 3 s without a renewal
//	wake-up lost             the row is overdue when the sweep comes       the owner's sweep, within a second, beside any backlog
//	row older than 10 s      the row lies among the backlog                the owner's sweep, within a second for each 65,536
//	missed                                                                 overdue rows of 64 shards
//	shards change hands      entries of lost shards are dropped            the new owner loads their alarms: recent ones first
//	node leaves              its shards are free, it rings on              others take them within two looks (0.5 s)
//	node dies                its leases end 1 to 1.5 s later               others take them at their next look, 0.25 s
//	node pauses, goes on     others have its shards; its claims were       it sees the new owners, drops the shards, and gets its
//	                         rolled back, and it writes no late ring       share again; the ring loop's limits, see package ring
//	broker away from a node  the node lacks "amqp" and yields its shards   an abler node takes them within 0.3 s; wake-ups of
//	                         after 2 s; it takes none                      the cut node are lost, the owner's sweep finds the rows
//	reads of a node fail     the node lacks "read" and yields likewise;    the failed query is repeated once a second
//	                         leases and the time have their own connections
//	broker away from all     all lack "amqp": no shard changes hands       the broker
//	two nodes, one name      both incarnations share like any others       a person: a warning, readiness, GET /v1/nodes
//	database down for all    no lease can be renewed or taken: all nodes   a node whose own leases ended takes none from others
//	                         ring on the shards that they have             for 1 s, because the others come back too
//	subscriber elsewhere     the owner leaves the application's rows to    changed subscribers are written to the node's row at
//	                         a node with a subscriber                      once, or with the next renewal after another change
//	                                                                       less than a second ago; others see them at their next look
//	notices fail             wake-ups are dropped and counted              the sweep; afterwards loaders read the recent and the
//	                                                                       coming alarms again
package preload
