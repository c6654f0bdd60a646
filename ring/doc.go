// Package ring rings due alarms. It owns the heap of alarms that are due soon, decides which alarm to ring next, and
// carries each batch through claim, delivery and settlement. It sees the database and the targets as small interfaces.
//
//	heap ──due──▶ Loop ──batch──▶ worker: claim ──▶ deliver ──▶ settle ──▶ result ──▶ Loop
//	  ▲          (Router)          of a crew  (store)     (Target)    (store)              │
//	  └────────────────── due again, through the Feeder ───────────────────────────────────┘
//
// A Route is the way to one target. The Router names the route of each application. Each route has a crew: workers with
// lanes of their own. All entries of a batch have one route, so the route decides whether the claim holds its
// transaction during the delivery, or commits before it (a two-phase claim).
//
// The loop sleeps until the head of the heap is due. On Linux it uses a kernel timer, because the runtime's timer is up
// to a millisecond late in an idle process.
//
// Alarms may name a target of their own, and a destination there. An addressee is an application together with what some
// of its alarms name, or with nothing (store.Addressee). Each addressee has its own queue, route and health, so a
// target or a destination that is away holds up no other alarms of the same application. Below, and in the comments of
// this package, application means addressee. Targets know an addressee as a receiver (clock.ReceiverOf). They end the
// alarms of a destination that the settings no longer have (clock.NoReceiver): no other receiver gets their rings.
//
// In this package a reply is the target's word about one ring: a confirm, a return, a nack or a refusal. An application
// is silent when its rings have no reply.
//
// The loop calls Deps.Observe once for each delivery, so traces and statistics are made outside of this package.
//
// # Invariants
//
//  1. Only claimed alarms are delivered. A claim takes only alarms that are due by the database's clock.
//  2. No byte of a ring is written later than Config.WriteTimeout after its claim began, on the monotonic clock, but
//     for the bound in Late bytes below. So a process that was stopped does not ring alarms that other nodes have rung
//     or applications have cancelled since. Time in which the machine was suspended counts too (CLOCK_BOOTTIME, on
//     Linux). A pause that a hypervisor hides from its guest does not.
//  3. Every ring is settled by its own outcome: in a batch that is half confirmed, half of the alarms have rung.
//  4. While a target is not usable the loop claims nothing for its route: no try is counted, and no database connection
//     is held. A batch is claimed only with an open lane. Each worker keeps its lane open outside of claims, and gets
//     no batch without a lane.
//  5. An id is in the heap once, or in flight. A row that is offered while its id is in flight waits for the
//     completion, and enters the heap only if it is news. A page may show the row as it was before the claim; that is
//     no news. A set that waited for the claim is newer than the claim's outcome.
//  6. The heap leaves a row out when there is no room, or when its application is restricted. The loader learns the
//     application and the position of the first missing row, and reads again when the heap has room. So a row that was
//     loaded once never waits for a sweep. Due entries that an application cannot park yet, but soon, stay in the heap
//     (suspend): to read their rows again took more time than to ring them.
//  7. A flood of one application delays only its own alarms: Room: a full share of the heap takes room from the
//     application with the most entries of the same route, if it has many more than the application that needs room, or
//     if its entries are due later. Turns: applications with due alarms take turns. No priority precedes another
//     application's turn. Rank: of one application's alarms with one due time, the alarm with the lower rank (the
//     higher priority) is popped first, whichever loader read it. Cost: Offer and pop never go through all
//     applications. A share with more applications than room is sorted, once for each half of its capacity in rows.
//  8. Memory is bounded by these limits: the heap's capacity; Workers batches, and QuarantineWorkers batches a route,
//     of BatchRows and BatchBytes; for each lane some batches with late replies (sharedMaxLate, quarantineMaxLate),
//     without their payloads; for each subscriber of a stream one batch with late replies, with the payloads of the
//     rings that the subscriber has; maxQuarantined applications (about 1 KiB each); and maxParkedAll parked entries
//     (about 10 MiB). Each application may park one entry beyond maxParkedAll. The routes divide the last two limits
//     equally.
//  9. Alarms that ring at most once have a claim of their own. It commits them as rung and in doubt before the first
//     byte is written. Only the ring's own outcome, or the fact that it was not sent, changes that state. Such a ring
//     is never published twice.
//  10. State that decides (which worker is free, which application is suspect) belongs to the goroutine of Loop.Run
//     alone.
//  11. A batch has one route, and so has a round of the quarantine. The heap pops each route's entries apart, so
//     entries that a route cannot ring hold up no other route.
//  12. The routes share Workers batches of healthy applications. One of these is reserved for each route. A slow target
//     may take the others, and delays only its own applications. Free workers serve the routes by turns. Each route has
//     quarantine workers of its own. All batches together use at most Connections database connections.
//  13. A ring whose reply is late is not published again while the reply may come: its row is in doubt, and due again
//     only after clock.AwaitTimeout, or never if it rings at most once. Its lateClaim postpones this due time as long
//     as it waits, and the heap leaves the row out (awaitedRows). So only another node rings it if it cannot be
//     postponed. A lane with many late deliveries does not open. So a slow target gets some batches a worker, and then
//     no more rings than it confirms. Late replies alone make no application suspect. An application is suspect if only
//     its rings are late in a batch (result.blameLate), or if the target gives its late rings up. Its rounds in the
//     quarantine are awaited, too. On a route with SeparateReplies only the rings of slow applications are late, and
//     make no application suspect.
//  14. Each route has an equal part of each share of the heap to itself. When its rows need room there, a route with
//     more than its own part yields, and keeps its part. The yielded rows are read again after the route's next pop. So
//     the due alarms of a target that is away or slow may fill the heap, but keep no other target's alarms out of it.
//     Room that a route does not need is free for the others.
//  15. The route of an application changes only at one step of the loop (Loop.Reroute): for the heap, the quarantine
//     and new batches at once. The heap moves the application's entries to the room of the new route. The quarantine
//     forgets the application. Batches under way end on the old route, and their outcomes no longer change the
//     application's health.
//  16. A try whose outcome is unknown is repeated at its own target (Route.Kind), whatever route its application has
//     now. The row has that target, so this holds for every node. A claim leaves such rows (Claim.Elsewhere). Their
//     entries are leftovers: parked at the route of the try, they ring in rounds of its quarantine, which claim nothing
//     else. A target that does not accept the application for leftoverPatience loses them to the present route, because
//     an alarm must ring. So does a target that the process has not.
//  17. A paused application (PausedRoute) is absent, and its leftovers stay in the database. Loop.Confirmed names a
//     version of the settings only when the calls of Reroute before Confirm apply and no batch from before is under
//     way. While Deps.Hold is true, no claim starts.
//
// # Late bytes
//
// A process cannot look at the clock and write in one step. It may be stopped between both, and write when it
// continues. So a target writes at most one piece (WritePiece, 64 KiB) for one look at the clock (WriteWhile). After
// the stop these bytes may be late:
//
//   - One piece of each connection to a broker or a receiver. The next look ends the write, and the target breaks the
//     connection.
//   - One write of each stream: 64 KiB of rings, and one ring more. The response to a reserve is one write: 1 MiB of
//     payloads, or one larger ring. These writes begin in time. A client that reads slowly takes the rest of a write
//     after the limit also without a stop, while its rings are awaited (invariant 13).
//   - Bytes that the operating system took in time, and has not sent yet.
//
// Late bytes harm no promise:
//
//   - A ring is never early. It was due when it was claimed.
//   - A receiver has a message only with its last byte. A late piece completes the rings that end in it, and no others.
//   - The claim may still stand: its transaction is open, or its end has not come. Then no other node has rung these
//     alarms, and no application has changed them. Their rings are settled as usual.
//   - Otherwise the claim is lost: its transaction was ended, or another claim has taken the rows. Then its claim id
//     never commits, and the late rings are copies, as after a lost connection. They are rings of the rows that were in
//     flight at the stop, and their message ids are those of the next claim's rings of the same alarms. So a consumer
//     that remembers message ids sees each ring once.
//   - A copy may come after a cancel or a change, because a lost claim holds up neither. Its node began it before them.
//     Its claim id and its generation tell it from other rings.
//   - A ring of an alarm that rings at most once has no copy, because its claim was committed before its first byte.
//     Its only ring is late.
//
// # An application's health
//
//	      returned, nacked, refused, in doubt, untaken    3 undelivered rounds in a row
//	healthy ─────────────────────────────────────▶ suspect ─────────────────────────────▶ held
//	   ▲  ▲                                           │                                     │
//	   │  └──── a round with confirms and no failure ─┘         a probe was confirmed       │
//	   └────────────────────────────────────────────────────────────────────────────────────┘
//	absent: the target does not accept the application (a stream without subscribers), or the application is paused; healthy once it does
//
// Suspect: the application rings in rounds of the quarantine. These have workers of their own, so healthy applications
// do not wait for them. While no ring is confirmed (a full queue that nacks), rounds become rarer, down to one batch a
// second. After refusals the batches are small; they grow to full size again while more entries wait. A receiver that
// takes a part of a batch gets batches of this size, and of one ring more for each late outcome: each further row would
// be claimed and released again. If it confirms rings, and fails no other, it is crowded: more of its alarms are due
// than it replies to. It stays suspect until its backlog is over, and may have QuarantineWorkers batches at once. So it
// gets rings of one batch while the database has the other. Each batch beside another one comes after the batches of
// the other applications.
//
// Held: three rounds in a row were undelivered. A round is undelivered when rings were returned (no queue is bound) or
// are in doubt (a quorum queue without its majority), and none was confirmed. Untaken rings do not count, so a slow
// subscriber never makes its application held. One due alarm of it is tried each second. The others stay in the
// database, unclaimed and uncounted, and are due at once when a probe is confirmed. So no try is counted in vain, and
// rings without a reply are not published over and over.
//
// Absent: also a suspect or held application becomes absent when the target stops accepting it. The log has a line with
// the target's reason.
//
// Loop.Blockers tells people why due alarms of an application wait.
//
// Rationed: the target says how many rings of the application it takes now (RationedTarget). All applications of such a
// route that are not absent are rationed, whatever becomes of their rings. Their due entries are parked, and ring in
// rounds of the quarantine as the ration allows, in up to QuarantineWorkers batches at once. The quarantine has them for
// its rounds only: Quarantined does not show them.
//
// A ring whose outcome is Doubtful makes its application suspect, and the quarantine repeats the ring. An awaited ring
// does not. So retries take at most QuarantineWorkers of a route's Workers + QuarantineWorkers, two fifths with the
// defaults, and far less while none of them is confirmed.
//
// Applications in quarantine do not wait for each other. One round holds the batches and probes of all applications
// with one kind of failure, and each application gets its part of the rows. The kinds are replying (returned, nacked),
// crowded and silent. A round of silent applications lasts up to Config.ReplyTimeout. Only one such round is under way
// at a time, so that a worker is left for the other applications. An application whose rings are all confirmed is
// healthy at once, while its round still waits for the others, if the lane reports confirms early (Limits.OnConfirmed). A late
// confirm does not end the quarantine, but makes a held application suspect, so that it rings in batches again. On a
// route with SeparateReplies it makes it healthy. An application that may be to blame for its round (refused) has the
// round alone. This costs QuarantineWorkers lanes a route, and as many database connections while rounds are under way.
//
// An application is forgotten when it has had no alarm to ring for 10 s, an absent one after a minute. Its next alarm
// rings with the healthy applications. When the quarantine has maxQuarantined applications, further failing ones ring
// with the healthy ones, and alarms that the target does not accept wait in the heap.
//
// # Failures: effect and recovery
//
//	target not usable         no claims for its route; other routes ring on;    Target.Changed wakes the loop
//	                          the expiry pass goes on
//	target slow               its route takes all workers but one a route; only the target
//	                          its own applications wait
//	a route with an ability   the node lacks the ability (Loop.Lacks)           nodes that lack less take its shards
//	cannot ring
//	former target away        its leftovers wait; the application's other       Target.Changed; a target that does not accept the
//	                          alarms ring by the new route                      application loses them after leftoverPatience
//	settings may be old       no claims of any route (Deps.Hold)                the next read of the settings
//	no room for leftovers     their rows are claimed in vain once a second      the next round
//	no route for an           logged; the application is absent                 none: the router is wrong
//	application
//	a lane cannot be opened,  its worker gets no batch; counted, logged once,   the worker tries again after 100 ms to 5 s;
//	or ends over and over     in Routes; without any lane its route cannot ring a lane that was of use opens again at once, and
//	                                                                            a lane full of late replies with the next one
//	a lane ends in a claim    its rings are unsent or in doubt                  the next claim, once the lane is open
//	no queue bound            returned: counted, backoff; then held             a probe
//	queue full, rejecting     nacked: counted, backoff, ever fewer batches      the first confirmed ring
//	queue without a reply     awaited, later in doubt: not counted; then held   a probe, one every 2 s
//	broker refuses a message  batches are halved until the culprit is alone,    it is counted, and dead past its limit;
//	                          others are in doubt, or unsent if none is stored  at once where it is the only one refused
//	a batch was not sent      released, as if not claimed                       claimed again 20 ms later
//	reply late, the lane can  awaited: written when it comes, up to lateLimit;  the late reply; if the process dies, any node
//	wait                      no copy                                           after clock.AwaitTimeout
//	no reply, and the lane    in doubt: the same ring again, not counted        the next reply
//	does not wait
//	a queue is at fault, its  suspect; its late rings are in doubt after        as for a queue without a reply
//	rings are late            10 s or more (package rabbit, patience)
//	a queue confirms, but     suspect: batches in the quarantine, awaited       confirms in time
//	always late
//	claim fails               the batch goes back to the heap, the loop pauses  50 ms to 2 s, with jitter; batches are
//	                                                                            halved, and grow again with quick batches
//	target, database or       batches near their time limits are halved, down   batches grow again while they use half of
//	machine slow              to 16 rings (pace)                                their time or less
//	settle fails              the transaction is rolled back or in doubt        claimed again after the pause, or after the
//	                                                                            claim's end; may ring twice, under the same message id
//	an at-most-once ring      nacked, refused, no confirm, or the process died  none: it stays rung and in_doubt; only a
//	may have arrived          before the outcome was written                    ring that certainly has not rings again
//	row locked by a set       the claim passes it over                          claimed again 20 ms later, then the sweep
//	process dies              the transaction dies with it                      any node's sweep
package ring
