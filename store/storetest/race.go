//go:build race

package storetest

// underRace reports that the race detector is on. It makes an engine inside the process about twenty times slower.
const underRace = true
