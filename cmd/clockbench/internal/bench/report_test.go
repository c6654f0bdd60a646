package bench

import (
	"testing"
)

func TestVerdictsFollowTargets(t *testing.T) {
	for _, test := range []struct {
		name    string
		figure  Figure
		verdict string
		target  string
	}{
		{"ratio met", Figure{Unit: perSecond, Value: 60}.beside("x", 100).ratioAtLeast(0.6), verdictMet,
			"ratio >= 0.6"},
		{"ratio missed", Figure{Unit: perSecond, Value: 59}.beside("x", 100).ratioAtLeast(0.6), verdictMissed,
			"ratio >= 0.6"},
		{"most ratio met", Figure{Unit: mebibytes, Value: 110}.beside("x", 100).ratioAtMost(1.1), verdictMet,
			"ratio <= 1.1"},
		{"most ratio missed", Figure{Unit: mebibytes, Value: 121}.beside("x", 100).ratioAtMost(1.2), verdictMissed,
			"ratio <= 1.2"},
		{"other figure", Figure{Unit: perSecond, Value: 9}.besideFigure(Figure{What: "x", Value: 10}).ratioAtLeast(1),
			verdictMissed, "ratio >= 1"},
		{"no other figure", Figure{Unit: mebibytes, Value: 110}.beside("x", 0).ratioAtMost(1.1), "", ""},
		{"not reported", Figure{Unit: mebibytes}.atMost(128), "", ""},
		{"no ceiling", Figure{Unit: perSecond, Value: 59}.beside("x", 0).ratioAtLeast(0.6), verdictMissed,
			"ratio >= 0.6"},
		{"value met", Figure{Unit: millis, Value: 20}.atMost(20), verdictMet, "<= 20 ms"},
		{"value missed", Figure{Unit: millis, Value: 20.1}.atMost(20), verdictMissed, "<= 20 ms"},
	} {
		if test.figure.Verdict != test.verdict || test.figure.Target != test.target {
			t.Errorf("%s: %s of %s", test.name, test.figure.Verdict, test.figure.Target)
		}
	}
}

func TestFigureIsTheMedianOfItsRounds(t *testing.T) {
	f := figureOf("herd", perSecond, samples{10, 30, 20}).besideAll("loop", samples{50, 10, 40})
	if f.Value != 20 || *f.Ceiling != 40 || *f.Ratio != 0.5 {
		t.Errorf("got %g of %g, ratio %g", f.Value, *f.Ceiling, *f.Ratio)
	}
}

func TestNumberIsWrittenByItsUnit(t *testing.T) {
	for _, test := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0, perSecond, "0/s"}, {999.6, perSecond, "1,000/s"}, {1234567, perSecond, "1,234,567/s"},
		{1.25, millis, "1.2 ms"},
		{148.96, mebibytes, "149.0 MiB"},
		{0.0234, "", "0.023"}, {34.56, "", "34.6"}, {12345.6, "", "12,346"}, {0.754, percent, "0.75 %"},
		{1.5, seconds, "1.50 s"},
	} {
		if got := number(test.value, test.unit); got != test.want {
			t.Errorf("got %q, want %q", got, test.want)
		}
	}
}

func TestBadFindsWrongRings(t *testing.T) {
	for _, test := range []struct {
		rings Rings
		bad   bool
	}{
		{Rings{Expected: 2, Rung: 2, Duplicates: 1}, false},
		{Rings{Lost: 1}, true}, {Rings{Early: 1}, true}, {Rings{Wrong: 1}, true}, {Rings{Again: 1}, true},
		{Rings{Foreign: 1}, true},
	} {
		r := Report{Rings: []Rings{{}, test.rings}}
		if err := r.Bad(); (err != nil) != test.bad {
			t.Errorf("%+v: %v", test.rings, err)
		}
	}
}

func TestValidateRefusesBrokenConfigs(t *testing.T) {
	good := DefaultConfig()
	good.Executable, good.Baseline, good.AMQPURL = "clockd", "clockbench", "amqp://a,b:c,d@h/e,f"
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Config){
		"no herd": func(c *Config) { c.Herd = 0 }, "too many": func(c *Config) { c.Pending = maxSeries + 1 },
		"queue": func(c *Config) { c.Queue = "lazy" },
		"stage": func(c *Config) { c.Only = []string{"speed"} }, "time": func(c *Config) { c.For = 0 },
		"executable": func(c *Config) { c.Executable = "" }, "baseline": func(c *Config) { c.Baseline = "" },
		"no crowd": func(c *Config) { c.Crowd = 0 }, "no overdue": func(c *Config) { c.Overdue = 0 },
		"rounds":       func(c *Config) { c.Rounds = 0 },
		"distribution": func(c *Config) { c.DistributionPending = []int{2, 2} },
		"hosts":        func(c *Config) { c.AMQPURL = "amqp://a:b@h1:5672,h2:5672/" },
	} {
		c := good
		if spoil(&c); c.Validate() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
