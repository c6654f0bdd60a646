// Command clockbench measures a clockd on a database and a broker. Beside each figure it measures the most that the
// database and the broker can do. Package bench has the stages and says how it measures.
//
// This package has the command line only. The hidden first argument "http" starts the server that package bench
// compares single requests with. The hidden first argument "load" starts the load of the stage overload.
//
// It is a module of its own, so that the service's module has nothing that only measurements need.
//
// # Invariants
//
//  1. clockbench reaches the measured clockd as its users do: over HTTP, by its commands, and as a receiver of rings.
//  2. The process removes all that it made, also after an error or an interrupt.
//
// # Failures
//
//	command line cannot be used  all faults in one error, exit 2, nothing is measured  a person
//	a stage fails                the error names the stage, exit 1                     a person
package main
