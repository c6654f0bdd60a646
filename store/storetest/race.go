//go:build race

package storetest

// underRace tells that the race detector watches, which makes an engine inside the process twenty times slower.
const underRace = true
