// Package lease decides which node rings which shard. A node has a lease of each shard that it owns, in the database.
// The Keeper renews the leases of its node, and takes and yields shards so that all nodes have even shares. At each
// look it reads the nodes and leases of the whole cluster. From these it derives the node's membership: the shards that
// the node loads, and the applications that it rings in them.
//
// The package reads and writes node rows and leases only. It imports neither the loaders (package preload) nor the
// wake-ups between nodes (package wake). Both ask the Keeper through their own interfaces.
//
// # Invariants
//
//  1. Correctness never depends on a lease. Leases only keep nodes from doing the same work.
//  2. A node stops ringing a shard only when it has seen that another node owns the shard. If it yielded the shard
//     itself, it also rings on for Grace. It never stops because of its own clock.
//  3. Leases end by the lower bound of the database's clock, so no node takes a lease before its end. A node that does
//     not know this bound neither renews nor takes leases.
//  4. A node's share of the shards follows from the living nodes and their abilities alone, and no node exceeds its
//     share. So the shares come to rest. The ablest nodes share all shards evenly. A node is outdone when another node
//     lacks a strict subset of the abilities that it lacks.
//  5. An ability belongs to the whole process: its loaders read ("read"), its lanes reach the broker ("amqp"). A node
//     announces a lost ability in its row at its next look. It yields its shards after 2 s without a break, only to an
//     abler node, and otherwise goes on working. It announces the recovery after 3 s without a break. While no node is
//     abler, and while the database is unreachable, no shard moves because of an ability.
//  6. At each look a node reads the oldest build level that may work on the database. A node whose build is older
//     renews no lease, gives its shards up and ends.
//  7. Shards, Owned and Rings return results of one membership, and all change at the same moment. Gained has each
//     shard and application that the node newly rings.
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
// With streams, rings go to subscribers. Then a shard's owner rings the applications that have a subscriber at the
// owner, and keeps the alarms of applications without any subscriber. The other applications only have subscribers at
// other nodes. For each shard and application, a hash chooses a preferred node among these nodes. The preferred node
// loads the application's rows of the shard, although another node owns it. Workers that reserve rings count as
// subscribers. If an application has a subscriber for some of its alarms and a worker for others, each node announces
// the alarms that its clients can have (Announcement), and gets no others.
//
// # Failures
//
//	failure                  effect                                        recovery
//	node joins               it owns nothing, the others yield a share     others see it at their next look: a node that is alone
//	                                                                       looks every 0.5 s, with each renewal
//	node leaves              its shards are free, it rings on              others take them within two looks (0.5 s)
//	node dies                its leases end 1 to 1.5 s later               others take them at their next look, 0.25 s
//	node pauses, goes on     others have its shards; its claims were       it sees the new owners, drops the shards, and gets its
//	                         rolled back, and it writes no late ring       share again; the ring loop's limits, see package ring
//	database clock set back  the leases of a dead node last until the      others take them after 3 s without a renewal
//	                         old clock's time
//	database slow or far     a look may take up to 16 s; leases last as     a look that succeeds
//	                         long as three looks, so a dead node's are
//	                         free later
//	rows of leases locked    their shards are not taken; Failing says so   a person ends the session that holds the locks
//	broker away from a node  the node lacks "amqp" and yields its shards   an abler node takes them within 0.3 s
//	                         after 2 s; it takes none
//	reads of a node fail     the node lacks "read" and yields likewise     it takes its share again 3 s after its reads succeed;
//	                                                                       leases and the time have their own connections
//	broker away from all     all lack "amqp": no shard changes hands       the broker
//	two nodes, one name      both incarnations share like any others       a person: a warning, readiness, GET /v1/nodes
//	database down for all    no lease can be renewed or taken: all nodes   a node whose own leases ended takes none from others
//	                         ring on the shards that they have             for 1 s, because the others come back too
//	subscriber elsewhere     the owner leaves the application's rows to    changed subscribers are written to the node's row at
//	                         a node with a subscriber                      once, or with the next renewal after another change
//	                                                                       less than a second ago; others see them at their next look
package lease
