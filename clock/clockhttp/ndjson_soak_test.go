//go:build soak

package clockhttp

import "testing"

func TestSoakStreamOfTenMillionLines(t *testing.T) { streamLines(t, 10_000_000) }
