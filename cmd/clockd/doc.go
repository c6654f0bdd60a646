// Command clockd is the alarm clock for services. The README describes it, and docs/ explains how to run it.
//
// This package alone imports all the others. It reads the configuration, joins the domain, the store, the ring, the preloader and
// the HTTP server with fx, and owns every goroutine through one runner:
//
//	start   store (migrate, check) ▸ database clock ▸ broker ▸ ring ▸ preload ▸ writer ▸ upkeep ▸ HTTP ▸ leases
//	stop    the reverse order, so senders stop before receivers; each has time to drain
//
// It also paces the garbage collector (cmd/internal/gcpace): it uses spare memory to collect less often, unless GOGC is set.
//
// # Failures, effects, recovery
//
//	configuration is invalid   all faults in one error, exit 2, nothing is changed   the operator
//	database away at start     it is asked for --start-timeout, then exit 1          the service manager
//	database or broker away    serving goes on, see the packages' tables             clockd, by itself
//	a component ends early     the process stops in order, exit 1                    the service manager
//	a component does not stop  the error of the stop names it                        a bug: please report it
package main
