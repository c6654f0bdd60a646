// Package bulk changes many alarms by a filter: cancels, kicks, discards, pauses, resumes or shifts them. Count says
// first what a filter selects. Then a job changes these alarms, on any node.
//
// A Job is a row with a revision. Each change of the row demands the revision that was read, so of two writers one
// wins.
//
//	waiting ──a node takes the lease──▶ running ──no alarm is left──▶ done
//	                                      │  ▲  ├──a person stops it──▶ stopped
//	                the lease has expired └──┘  └──the filter cannot be read──▶ failed
//
// # Invariants
//
//  1. A job changes each alarm with an op of package clock, as a request for this alarm alone does. So each change is
//     linearizable.
//  2. The filter is frozen: a job changes no alarm that was created after Filter.FrozenAt. It shifts no alarm that has
//     changed since then, so it shifts no alarm twice.
//  3. The row says up to which position the job is done. A node that takes the job over begins there. All ops may be
//     repeated. While the alarms of a page are changed, the next page is read, if its alarms stay selected whatever
//     changes meanwhile. With a due range, an op changes only the generation that was read.
//  4. A node writes the row after each page, and so renews its lease. Two nodes may work on one job for the time of a
//     page; that does no harm.
//  5. The start of a job, and a person's stop, are acts of the audit, in the transaction of the row. The single changes
//     are none: the events of an alarm have the starts of the jobs that may have changed it (Runner.On).
//  6. An application has a limit of jobs that have not ended (maxOpen), so it does not keep those of others waiting.
//
// # Failures, effects, recovery
//
//	the owner dies             the job stands still until its lease expires       another node goes on, within about 14 s
//	the owner stops            it gives the lease up after its page               another node goes on within a second
//	the database is away       no alarm is counted as refused                     a node repeats the page until it succeeds
//	a COMMIT has no reply      the op is repeated; if its alarm has changed, it counts as changed
//	a row stays locked         the op waits as a request does; then the alarm is counted as refused   a person starts another job
//	an alarm changes meanwhile a shift does not select it any more: it is counted neither as changed nor as refused
package bulk
