// Package bench measures a running clockd from outside. Beside each figure it measures what the same database and the
// same broker can do at most.
//
// The figures come from a real service: `clockd serve` in its own process, with its own database, exchange and queue.
// The bench reaches it over HTTP, by its commands, and as a receiver of rings. The ceilings come from bare code in this
// package: raw drivers and no line of the service. They run right after the figure, on the same server, on a copy of
// the same table and on the same type of queue. Single requests are the exception: their ceiling is the service's own
// HTTP server without a store. Only the ratio of figure and ceiling is meaningful. The machine, its disk and its
// neighbours change from hour to hour, but both sides feel the same changes.
//
//	stage      figures                                             ceiling
//	sets       NDJSON and JSON arrays: set, cancel                 a multi-row insert (update) of 500 rows, with as many writers
//	singles    PUT and DELETE on 64 connections                    the same HTTP server without a store, in its own process; net/http
//	herd       N alarms due at one instant, until the last ring    the bare loop: claim, publish, confirm, commit; bare publish
//	                                                               (stream: claim and commit)
//	stream     the herd over the stream, if there is a broker      claim and commit
//	lateness   alarms at a constant rate                           the bare loop, one due time after the other
//	memory     memory during a herd of a million                   none
//	pending    N alarms far ahead, and beside them: memory, sets,  with few pending alarms: memory, sets; a multi-row insert
//	           an idle node, lateness, herd, start                 among the N; the bare loop
//	cost       for a set, a cancel and a ring: statements,         none; the use of an idle node is subtracted, and the
//	           transactions, syncs, log, frames, allocations       allocations of a ring have a target
//	nodes      herd and lateness with 1, 2 and 4 nodes             one node
//	intake     N delayed messages: taken as alarms, due at one     none
//	           instant; lateness of messages at a constant rate
//	webhook    herd and lateness of rings to a HTTP server; a      a client of net/http that only sends, as many at once
//	           herd to a server that replies after 5 ms
//	grpc       the same to a server of gRPC                        a client of grpc-go that only sends, as many at once
//	pull       herd and lateness of rings that workers reserve;    the stream, by turns
//	           a herd of which they acknowledge each ring
//	kafka      herd and lateness of records, if there are brokers  a producer that only sends
//
// The servers of webhook and grpc, and the clients that only send, are in the process of the bench.
//
// Each stage has a fresh database and a fresh process. The bench checks every ring: it came, it was not early by the
// database's clock, it came once, and its payload is the payload that was set.
//
// Overload is a stage that runs only when it is named. It has parts, each in a testbed of its own:
//
//	herds under load   herds by turns, on the free machine and while six busy threads a core and synced files take it: copies, rates, rings
//	                   per second of processor time
//	flood              single sets at twice the best rate for a minute: accepted ones, how long they take, lateness afterwards
//	slow broker        a proxy lets nothing from the broker pass for 10 s in the middle of a herd, then each confirm comes 3 to 10 s late
//	                   for a minute: copies, single sets and cancels meanwhile, time until all has rung
//	killed node        one of three nodes is killed in a herd under load: copies, beside the rings that it may have had under way
//
// The distribution of lateness is a stage that runs only when it is named. It rings bursts among more and more pending
// alarms, and again while a node of two is killed. Plot draws the distributions of one or several reports.
//
// Compare compares a report with an earlier report. It shows the figures that changed by more than the rounds differ.
// If both runs have the same ceiling, it compares the ratios.
//
// Everything that the bench makes is named clockd_bench_<random>. It is removed at the end, also after an error or an
// interrupt.
package bench
