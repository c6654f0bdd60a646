//go:build soak

package bench

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"
)

// The engines are measured in parallel, because a bench mostly waits.

func TestSoakRunMeasuresEveryStageOnSQLite(t *testing.T) {
	t.Parallel()
	runOnSQLite(t, quickConfig)
}

func TestSoakRunMeasuresEveryStageOnMariaDB(t *testing.T) {
	t.Parallel()
	runOnMariaDB(t, quickConfig)
}

func TestSoakRunMeasuresEveryStageOnPostgreSQL(t *testing.T) {
	t.Parallel()
	runOnPostgreSQL(t, quickConfig)
}

// The overload stage rings herds by turns and sends a flood. With a broker it also slows the broker down and kills a
// node.
func TestSoakRunMeasuresOverload(t *testing.T) {
	for _, withBroker := range []bool{false, true} {
		t.Run(fmt.Sprintf("with broker %t", withBroker), func(t *testing.T) {
			t.Parallel()
			cfg := quickConfig("sqlite:"+filepath.Join(t.TempDir(), "some.db"), "")
			cfg.Only = []string{stageOverload}
			steadyRings := int(float64(cfg.Rate) * cfg.For.Seconds())
			figures, rings := 4+5, 2*cfg.Herd+2*steadyRings
			if withBroker {
				cfg.DatabaseURL, cfg.AMQPURL = setting(t, "CLOCKD_TEST_MYSQL_URL"), setting(t, "CLOCKD_TEST_AMQP_URL")
				figures, rings = figures+2+5+2, rings+cfg.Herd+int(float64(cfg.Rate)*cfg.slowFor.Seconds())+cfg.Herd
			}
			var progress bytes.Buffer
			cfg.Progress = &progress
			report, err := Run(t.Context(), cfg)
			if err != nil {
				t.Fatalf("%v\n%s", err, &progress)
			}
			if err := report.Bad(); err != nil {
				t.Error(err)
			}
			rung := 0
			for _, c := range report.Rings {
				rung += c.Rung
			}
			if rung != rings || len(report.Figures) != figures {
				t.Errorf("%d rings and %d figures, want %d and %d\n%s", rung, len(report.Figures), rings, figures,
					&progress)
			}
			for _, f := range report.Figures {
				if f.Stage != stageOverload || f.Value < 0 || f.Ceiling != nil && *f.Ceiling < 0 {
					t.Errorf("%+v", f)
				}
			}
		})
	}
}
