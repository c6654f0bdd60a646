// Package stats keeps the rates and the lateness of the last hour and of the last day, so that charts need no
// Prometheus. A Recorder counts sets, cancels and rings of this node in the current step of 5 s, in memory. At the end
// of the step it adds the step to the last 720 steps of 5 s, and to the last 1440 steps of a minute. A Writer writes
// each ended step into the database, and a Joiner adds the steps of all nodes. The Writer also writes when each
// application last set or cancelled an alarm. A Recent has a sample of the latest tries of this node, for people who
// watch.
//
//	Op, Rung ─▶ Recorder ─▶ Writer ─▶ database
//	               │                     │
//	               └──────▶ Joiner ◀─────┘ on request
//
// Nodes meet in the database because every node reaches it. They need no address, no secret and no open port of each
// other. So figures also outlive the node that counted them.
//
// # Invariants
//
//  1. Memory is bounded. A step of a node has the figures of all applications together, and of its busiest applications
//     alone (MaxApplications). The current step counts at most maxLive applications apart. An application beyond that
//     counts in the total alone.
//  2. Steps are aligned to the database's clock, so the steps of all nodes are the same, and their figures can be
//     added.
//  3. Lateness is kept as a Sketch, whose buckets grow by a tenth. Sketches can be added without loss, so a quantile
//     over many steps, or many nodes, is as exact as a quantile of one: within 5 % of the true value. An average of
//     quantiles would be wrong.
//  4. The counts of a minute are the sums of its steps of 5 s. The busiest applications of a minute are chosen among
//     the applications of its steps.
//  5. Counting never waits for the database: Op and Rung take one mutex for some additions.
//  6. A node writes each step when it has ended, also an empty one, and changes it only after its clock was set back
//     far. So a living node without its latest steps in the database is missing, not idle: Joined names it.
//  7. A step in memory never changes, so requests share steps, and the lock of the counting is held for one copy of
//     their headers.
//  8. A node reads and joins steps of others on request alone, at most once a second, and after a failure every 4 s.
//     It keeps tries for 15 s after a request.
//  9. A node writes the sighting of an application once a minute at most, so one is up to a minute and a step too
//     early, and never too late. A busy application costs as much as a quiet one.
//
// # Failures
//
//	failure                            effect                                            recovery
//	node stops                         none: it writes its open steps too                none needed
//	node is killed                     its open minute and its open step are lost        none
//	database is away                   Joined has this node alone, and says why; steps   the Writer writes the steps of up to an
//	                                   wait in memory                                    hour
//	database's clock is unknown        the current step goes on                          the next known time ends it
//	over 1,000 applications in a step  further ones are not seen in this step            their next set or cancel
//	node writes late                   Joined ends up to 2 steps earlier; after 3 steps  the next Joined that reads its steps; one of
//	                                   the node is missing                               more than 12 steps ago within 5 minutes
//	node of another encoding           the node is missing                               none needed
//	process or machine stands still    the missed steps are empty, and what was counted  none needed
//	                                   belongs to the step in which it began
//	database's clock set back          the current step goes on until the clock is       none needed
//	                                   past its end again; after an hour the history
//	                                   begins again
package stats
