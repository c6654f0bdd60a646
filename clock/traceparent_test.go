package clock_test

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestSampledTraceNeedsTheFlag(t *testing.T) {
	const trace = "0af7651916cd43dd8448eb211c80319c"
	for flags, want := range map[string]string{"01": trace, "03": trace, "ff": trace, "0b": trace, "00": "", "02": "", "0a": "", "10": "", "fe": "", "0": "", "0g": ""} {
		if got := clock.SampledTrace("00-" + trace + "-b7ad6b7169203331-" + flags); got != want {
			t.Errorf("flags %s: got %q, want %q", flags, got, want)
		}
	}
}

func TestOnlyValidTraceparentIsTaken(t *testing.T) {
	const good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for given, want := range map[string]string{
		good: good, "": "", "x": "", good + "-x": "", strings.ToUpper(good): "", "ff" + good[2:]: "",
		"00-00000000000000000000000000000000-b7ad6b7169203331-01": "",
		"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01": "", strings.Replace(good, "-", "_", 1): "",
	} {
		if got := clock.ParseTraceparent([]string{given}); got != want {
			t.Errorf("%q: %q", given, got)
		}
	}
}
