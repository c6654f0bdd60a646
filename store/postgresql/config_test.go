package postgresql

import (
	"strings"
	"testing"

	"github.com/clockd/clockd/clock"
)

func TestURLErrorsHideThePassword(t *testing.T) {
	for _, u := range []string{
		"postgres://clockd:hunter2@127.0.0.1:port/clockd", "postgres://clockd:hunter2@[::1/clockd",
		"postgres://clockd:hunter2@h/db?sslmode=maybe",
		"postgres://clockd:hunter2%zz@h/db", "host=h password=hunter2 port=x", "hunter2",
		"postgres://clockd:hunter2@h:5432/db?connect_timeout=x",
	} {
		cfg := DefaultConfig()
		cfg.URL = u
		_, err := New(cfg, Deps{})
		if err == nil {
			t.Errorf("%q is accepted", u)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestValidateNamesTheBrokenSetting(t *testing.T) {
	valid := DefaultConfig()
	valid.URL = "postgres://clockd@127.0.0.1/clockd"
	ok(t, valid.Validate(), "validate the default")
	for reason, change := range map[string]func(*Config){
		"URL":          func(c *Config) { c.URL = "" },
		"shards":       func(c *Config) { c.Shards = clock.MaxShards + 1 },
		"conns must":   func(c *Config) { c.Conns = 1 },
		"read conns":   func(c *Config) { c.ReadConns = 1 },
		"ring conns":   func(c *Config) { c.RingConns = 0 },
		"timeouts":     func(c *Config) { c.DialTimeout = 0 },
		"ping timeout": func(c *Config) { c.PingTimeout = c.Timeout + 1 },
	} {
		c := valid
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v", reason, err)
		}
	}
}

func TestValidateNamesAllBrokenSettings(t *testing.T) {
	err := Config{Shards: -1, PingTimeout: 1}.Validate()
	for _, reason := range []string{"URL", "shards", "conns must", "read conns", "ring conns", "upkeep conns", "timeouts", "ping timeout"} {
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("the error does not name %q: %v", reason, err)
		}
	}
}

// TestShardCountIsFixedOnce: the first migration fixes the shard count. Later configurations cannot change it.
func TestShardCountIsFixedOnce(t *testing.T) {
	u := newURL(t)
	with := func(shards int) *opened {
		cfg := DefaultConfig()
		cfg.URL, cfg.Shards = u, shards
		return openWith(t, cfg, Deps{})
	}
	ok(t, with(7).Migrate(t.Context()), "migrate")
	ok(t, with(9).Migrate(t.Context()), "migrate an up-to-date database")
	if err := with(9).Check(t.Context()); err == nil || !strings.Contains(err.Error(), "7") {
		t.Errorf("check with another shard count: %v", err)
	}
	s := with(0)
	ok(t, s.Check(t.Context()), "check")
	if s.ShardCount() != 7 {
		t.Errorf("%d shards", s.ShardCount())
	}
}
