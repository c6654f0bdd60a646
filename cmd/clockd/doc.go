// Command clockd is the alarm clock for services. The README describes it, and docs/ explains how to run it.
//
// This package reads the configuration and joins the parts with fx. It imports the domain (clock, clockhttp), the store and the adapter
// of each engine, the ring and its targets (rabbit, stream), and the loaders with leases and wake-ups (preload, lease, wake). No other
// package of the service imports all of these. The adapters import store/engine and schema.
//
// One runner owns the goroutine of each component. The function own in wiring.go has their order:
//
//	before  port: listens, and says what the start waits for; store: opened, migrated, checked; then the first sample of the database clock
//	start   database clock ▸ broker ▸ ring ▸ wake-ups ▸ wake-up sender ▸ reads ▸ preload ▸ writer ▸ retention ▸ overdue ▸ durability ▸
//	        answers ▸ http ▸ leases
//	stop    the reverse order, so senders stop before receivers; each has time to drain; the store is closed last
//
// Each exchange has a component "broker" and a component "answers". A service that rings to the stream alone has neither. It has
// wake-ups only if its database passes notices.
//
// It also paces the garbage collector (cmd/internal/gcpace): it uses spare memory to collect less often, unless GOGC is set.
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
