package clockhttp

import (
	"log/slog"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// slow is set where tests may take minutes.
var slow = os.Getenv("CLOCKD_SLOW") != ""

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }
