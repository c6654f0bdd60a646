// Package scripted is a broker for tests that decide each of its frames, such as an ack that comes twice, or a close in
// the middle of a delivery. It knows nothing of clockd: it encodes frames by itself, so that a fault of clockd's own
// encoding shows.
package scripted
