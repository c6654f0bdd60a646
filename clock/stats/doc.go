// Package stats keeps the rates and the lateness of the last hour and of the last day in memory, so that charts need no
// Prometheus. A Recorder counts sets, cancels and rings in the current step of 5 s. At the end of the step it adds the
// step to a History: 720 steps of 5 s, and 1440 steps of a minute.
//
// # Invariants
//
//  1. Memory is bounded. A step has the figures of all applications together, and of the busiest applications alone
//     (MaxApplications). The current step counts at most maxLive applications apart. An application beyond that counts
//     in the total alone.
//  2. Steps are aligned to the database's clock, so the steps of all nodes are the same, and their figures can be
//     added.
//  3. Lateness is kept as a Sketch, whose buckets grow by a tenth. Sketches can be added without loss, so a quantile
//     over many steps, or many nodes, is as exact as a quantile of one: within 5 % of the true value. An average of
//     quantiles would be wrong.
//  4. The counts of a minute are the sums of its steps of 5 s. The busiest applications of a minute are chosen among
//     the applications of its steps.
//  5. Counting never blocks on I/O: Op and Rung take one mutex for some additions.
//
// # Failures
//
//	failure                            effect                                            recovery
//	node ends                          its figures are lost                              none
//	database's clock is unknown        the current step goes on                          the next known time ends it
//	process or machine stands still    the missed steps are empty, and what was counted  none needed
//	                                   belongs to the step in which it began
//	database's clock set back          the current step goes on until the clock is       none needed
//	                                   past its end again; after an hour the history
//	                                   begins anew
package stats
