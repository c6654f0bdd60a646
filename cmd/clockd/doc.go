// Command clockd is the alarm clock for services. The README describes it, and docs/ explains how to run it.
//
// This package reads the configuration and joins the parts with fx. It imports the domain and its interfaces (clock and
// below), the store and the adapter of each engine, the ring and its targets (grpc, kafka, pull, rabbit, stream,
// webhook), and the loaders with leases and wake-ups (preload, lease, wake). No other package of the service imports
// all of these.
//
// One runner owns the goroutine of each component. The function own in wiring.go has their order:
//
//	before  port: listens, and says what the start waits for; store: opened, migrated, checked; then the first sample of the database
//	        clock, the settings, the tokens, and the check of the time-zone data
//	start   database clock ▸ settings ▸ access ▸ stats ▸ figures ▸ broker ▸ kafka ▸ ring ▸ wake-ups ▸ wake-up sender ▸ reads ▸ preload ▸ writer ▸
//	        recompute ▸ retention ▸ overdue ▸ durability ▸ bulk ▸ answers ▸ intake ▸ http ▸ leases
//	stop    the reverse order, so senders stop before receivers; each has time to drain; the store is closed last
//
// The components broker, answers and intake exist with RabbitMQ, and kafka with Kafka. Wake-ups need a broker, or a
// database that passes notices.
//
// It also paces the garbage collector (cmd/internal/gcpace): it uses spare memory to collect less often, unless GOGC is
// set.
//
// # Failures, effects, recovery
//
//	configuration is invalid   all faults in one error, exit 2, nothing is changed   the operator (clockd config)
//	a signal during the start  the start ends, exit 0                                the service manager
//	database away at start     /readyz says so for --start-timeout, then exit 1      the service manager
//	database or broker away    serving goes on, see the packages' tables             clockd, by itself
//	a component ends early     the process stops in order, exit 1                    the service manager
//	a component does not stop  the error of the stop names it                        a bug: please report it
package main
