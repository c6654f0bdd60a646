// Package gcpace paces the garbage collector of clockd and of the server that clockbench compares it with. Both have a
// small live heap. Go's default would collect it about fifty times a second under load.
//
// # Invariants
//
//  1. The heap may grow by at least 40 MiB between two collections, and by at least Go's default of 100 %.
//  2. The soft memory limit is twice what the process holds, and at least 160 MiB. So a flood of requests does not let
//     the heap grow far before the first collection that sees it.
//  3. GOGC and GOMEMLIMIT of the operator win.
package gcpace
