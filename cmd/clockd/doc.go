// Command clockd is the alarm clock for services: see the README for what it does and docs/ for running it.
//
// This package is the one place that sees everything. It reads the configuration, joins domain, store, flows and faces with
// fx, and owns every goroutine through one runner:
//
//	start   store (migrate, check) ▸ database clock ▸ broker ▸ ring ▸ preload ▸ writer ▸ upkeep ▸ HTTP
//	stop    the other way round: senders before receivers, each given time to drain
//
// It also paces the garbage collector (collector): memory that is not needed is spent on collecting less often, unless GOGC is set.
//
// # What fails, what happens, who heals it
//
//	configuration wrong        all errors at once, exit 2, nothing was touched        the operator
//	database away at start     asked again for --start-timeout, then exit 1           the service manager
//	database or broker away    serving goes on, see the packages' tables              by itself
//	a component ends early     the process stops in order, exit 1                     the service manager
//	a component does not stop  it is named in the log when the stop's time is over    a bug: please report it
package main
