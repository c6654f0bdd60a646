//go:build soak

package main

import "testing"

func TestSoakCancelledAlarmsDoNotRing(t *testing.T) { mostAreCancelled(t, 100_000) }
