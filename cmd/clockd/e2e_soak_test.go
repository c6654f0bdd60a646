//go:build soak

package main

import "testing"

func TestSoakMostOfManyAreCancelled(t *testing.T) { mostAreCancelled(t, 100_000) }
