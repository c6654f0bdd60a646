// Package bench measures a running clockd from outside, and beside each figure what the same database and the same
// broker can do at all.
//
// The figures are those of a real service: `clockd serve` in a process of its own, on a database of its own, with an
// exchange and a queue of its own, reached by HTTP and AMQP alone. The ceilings come from bare code in this package, raw
// drivers and not a line of the service, on the same server, a copy of the same table and the same type of queue, right
// after the figure; single requests alone are compared with the service's own HTTP face over nothing. Only the ratio of the two
// says something: the machine, its disk and its neighbours change from hour to hour and are the same for both.
//
//	stage      figures                                             ceiling
//	sets       NDJSON and JSON arrays: set, cancel                 a multi-row insert (update) of 500 rows, as many writers
//	singles    PUT and DELETE on 64 connections                    the same server that stores nothing, in a process of its own; net/http
//	herd       N alarms due at one instant, until the last came    the bare loop: claim, publish, confirm, commit; bare publish
//	                                                               (stream: claim and commit)
//	stream     the herd over the stream, where there is a broker   claim and commit
//	lateness   alarms at a constant rate                           the bare loop, one due time after the other
//	memory     that of a herd of a million
//	pending    N alarms far ahead, and beside them: memory, sets,  with few pending: memory, sets; a multi-row insert among
//	           an idle node, lateness, herd, start                 the N; the bare loop
//	cost       what a set, a cancel and a ring take: statements,   the line of an idle node is subtracted; the ring's allocations
//	           transactions, syncs, log, frames, allocations       have a target
//	nodes      the same with 1, 2 and 4 nodes, and lateness        one node
//
// Each stage has a fresh database and a fresh process. Every ring of the herd and of the lateness is checked: that it came, that
// it was not early by the database's clock, that it came once, that the payload is the one that was set.
//
// A stage of its own, measured only where it is named, is the distribution of lateness: bursts among more and more pending alarms, and
// again while one of two nodes is killed in the midst. Plot draws it, also that of several runs.
//
// Compare holds a report against an earlier one: what has changed by more than the rounds differ, in parts of the ceiling where
// both runs have the same one.
//
// All that is made is named clockd_bench_<random>, and removed at the end, also after an error or an interrupt.
package bench
