// Package bench measures a running clockd from outside, and beside each figure what the same database and the same
// broker can do at all.
//
// The figures are those of a real service: `clockd serve` in a process of its own, on a database of its own, with an
// exchange and a queue of its own, reached by HTTP and AMQP alone. The ceilings come from bare code in this package, raw
// drivers and not a line of the service, on the same server, a copy of the same table and the same type of queue, right
// after the figure. Only the ratio of the two says something: the machine, its disk and its neighbours change from hour
// to hour and are the same for both.
//
//	stage      figures                                             ceiling
//	sets       NDJSON and JSON arrays: set, cancel                 a multi-row insert (update) of 500 rows, as many writers
//	singles    PUT and DELETE on 64 connections                    an HTTP server that reads the same body and stores nothing
//	herd       N alarms due at one instant, until the last came    the bare loop: claim, publish, confirm, commit; bare publish
//	                                                               (stream: claim and commit)
//	lateness   alarms at a constant rate                           the bare loop, one due time after the other
//	pending    memory with N alarms far ahead, lateness with them
//
// Each stage has a fresh database and a fresh process. Every ring of the herd and of the lateness is checked: that it came, that
// it was not early by the database's clock, that it came once, that the payload is the one that was set.
//
// All that is made is named clockd_bench_<random>, and removed at the end, also after an error or an interrupt.
package bench
