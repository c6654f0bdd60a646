// Package preload brings alarms that are due soon from the database into the heap. It never writes an alarm. Each
// loader reads the alarms of a group of shards in time order, up to a window ahead. Its watermark says how far it has
// read.
//
// Two packages below this one do the work between nodes. Package lease decides which node rings which shard: the
// Preloader asks it through Ownership. Package wake tells other nodes about newly committed rows: the Preloader calls
// it through Announcer, and it calls Take with the rows of other nodes. None of the three packages imports another one.
// Two more types help the loaders: Reads knows whether their reads succeed, and Overdue counts overdue alarms for a
// metric.
//
//	              watermark                       horizon = now + Window
//	──────────────────┼──────────────────────────────┼─────────────────▶ next_try_time
//	all rows were     │ the next page is read from   │ rows are too far ahead
//	offered to the    │ here                         │ to be read
//	heap              │                              │
//
// The due index tells the addressee of each row: its application, target and destination (store.Addressee).
//
// The heap leaves out an addressee's rows from some position on when it has no room for them, or while the addressee is
// restricted. Then the addressee is behind. The loader remembers the position, and reads on from there when the heap
// has room for the addressee's rows. Meanwhile the watermark advances, so one addressee's backlog does not delay the
// rows of other addressees.
//
// Thousands of addressees may be behind at once. The heap names the addressees for which it may have room, and the
// loader asks it only about these. The loader asks about all addressees that are behind when the share has room for all
// addressees of a route, and once a sweep. Reads go round the positions of the addressees for which there is room. One
// page serves every such addressee whose rows it holds. Pages for some addressees are rationed: the useful rows of
// earlier pages pay for them. So a backlog costs a few reads a row, however many addressees have one.
//
// # Order of reads
//
// Gaps are ranges below the watermark that were not read yet, in some shards. A loader that starts sets its watermark
// to 10 s before now, and the time before becomes a gap of all its shards. When the loader gains shards, the time
// before its watermark becomes a gap of these shards. The loader reads ahead from the watermark, and beside it, page by
// page, the gaps: the last 10 s first, then the last minutes, then the rest. So a backlog does not delay alarms that
// come due meanwhile.
//
// Where addressees that are behind have many rows, the loader names up to 64 of them in its queries. Then the database
// reads past their rows in the due index. The number of index entries that it reads past is bounded for each page.
//
// Only gained shards are read from the beginning. The loader's other shards keep their watermark. When a subscriber
// comes, the loader reads its application's rows again, and only if this node did not ring them before. When a
// subscriber leaves, the loader reads nothing. After lost wake-ups it reads the recent and the coming alarms again, not
// the backlog.
//
// # Invariants
//
//  1. Each committed row before the watermark is in the heap, was popped from the heap, lies in a gap of its shard, or
//     lies at or after the position from which its addressee is behind. A page or the row's own commit offers it to the
//     heap. Before a page is read, the loader raises the watermark, or forgets the positions of the page's addressees.
//     So a commit during the read offers its own rows. After the read, watermark and positions fall back to the end of
//     the page and to the rows that the heap left out.
//  2. Rows that are committed during a read are newer than the rows that it returns. The loader drops the read's rows
//     with the same ids.
//  3. Loaders read the due index only. They neither lock nor write rows.
//  4. A sweep every second reads overdue rows below the watermark. While no alarm of the node is overdue, one read
//     (emptyCheck) stands for the sweeps of all loaders. A sweep finds every missed row: after a lost wake-up, a claim
//     that died, or a COMMIT without a reply. It goes round all overdue rows in pages of at most 1,024 index entries a
//     shard. Beside a backlog it also reads the alarms of the last 10 s. No write leaves a next_try_time before its own
//     time, and none takes 10 s to commit. So each sweep reaches every row whose wake-up was just lost.
//  5. Correctness never depends on who owns a shard. Two loaders of one shard only cost work.
//  6. A loader drops the entries of a shard only when Ownership no longer has the shard. The entries of the other
//     shards stay.
//  7. Ownership.Gained is read before Ownership.Shards, so each gained shard is among the loaded shards.
//
// # Failures
//
//	failure                  effect                                        recovery
//	database down            the page is lost, the watermark falls back    the loader tries again, 100 ms to 5 s with jitter
//	heap's share full        the heap cuts the longest queue, its          the loader reads on when the queue or the share has
//	                         addressee is behind                         shrunk to half
//	database clock set back  the watermark is lowered to the window's end  loaders read the rows past it when their time comes
//	wake-up lost             the row is overdue when the sweep comes       the owner's sweep, within a second, beside any backlog
//	emptyCheck hangs         its loader waits for it                       the other loaders sweep by themselves after 250 ms
//	row older than 10 s      the row lies among the backlog                the owner's sweep, within a second for each 65,536
//	missed                                                                 overdue rows of 64 shards
//	shards change hands      entries of lost shards are dropped            the new owner loads their alarms: recent ones first
//	too many commits during  the rows of the read are dropped              the loader repeats the read; the next sweep goes on
//	a read
//	reads of a node fail     Reads.Failing is true, so the node lacks      the failed query is repeated once a second
//	                         "read" (package lease)
//	wake-ups interrupted     rows of other nodes may be missed             Refresh: loaders read the recent and the coming alarms
package preload
