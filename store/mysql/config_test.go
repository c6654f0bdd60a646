package mysql

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

func TestConfigURLSetsUpTheDriver(t *testing.T) {
	cfg := DefaultConfig()
	cfg.URL = "mysql://us%40er:p%2Fa%3Ass@[::1]/clockd?tls=skip-verify&timeout=1h&parseTime=true"
	d, err := cfg.driver(slog.New(slog.DiscardHandler))
	ok(t, err, "read the URL")
	got := []any{d.User, d.Passwd, d.Net, d.Addr, d.DBName, d.Collation, d.TLSConfig, d.ParseTime, d.InterpolateParams,
		d.RejectReadOnly, d.Timeout}
	want := []any{"us@er", "p/a:ss", "tcp", "[::1]:3306", "clockd", "utf8mb4_bin", "skip-verify", false, true, true,
		3 * time.Second}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("setting %d is %v, want %v", i, got[i], want[i])
		}
	}
}

// TestURLErrorsHideThePassword tries URLs that cannot be used. No error may show any part of the password.
func TestURLErrorsHideThePassword(t *testing.T) {
	for _, u := range []string{
		"mysql://user:hidden@host", "mysql://user:hid/den@host/db", "mysql://user:hid den@host/db",
		"mysql://user:hid%zzden@host/db",
		"mysql://user:hidden@host:port/db", "mysql:user:hidden@host/db", "postgres://user:hidden@host/db",
		"user:hidden@tcp(host)/db",
		"mysql://user:hidden@host/db/hidden", "mysql://user:hidden@host/db?tls=nosuch",
		"mysql://user:hidden@host/db?timeout=x",
	} {
		cfg := DefaultConfig()
		cfg.URL = u
		_, err := New(cfg, Deps{})
		if err == nil {
			t.Errorf("%s is accepted", u)
			continue
		}
		for _, secret := range []string{"hidden", "hid", "den"} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the error shows the password: %v", err)
			}
		}
	}
}

func TestValidateNamesTheBrokenSetting(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"url":         func(c *Config) { c.URL = "" },
		"shards":      func(c *Config) { c.Shards = -1 },
		"conns":       func(c *Config) { c.Conns = 0 },
		"write conns": func(c *Config) { c.WriteConns = 1 },
		"read conns":  func(c *Config) { c.ReadConns = 1 },
		"ring conns":  func(c *Config) { c.RingConns = 0 },
		"timeout":     func(c *Config) { c.Timeout = 0 },
	} {
		cfg := DefaultConfig()
		cfg.URL = "mysql://host/db"
		ok(t, cfg.Validate(), "validate the default")
		change(&cfg)
		if err := cfg.Validate(); err == nil || !strings.Contains(strings.ToLower(err.Error()), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValidateNamesAllBrokenSettings(t *testing.T) {
	err := Config{Shards: -1}.Validate()
	for _, reason := range []string{"URL", "shards", "conns must", "read conns", "write conns", "ring conns", "upkeep conns", "timeouts"} {
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("the error does not name %q: %v", reason, err)
		}
	}
}

func TestOldServersAndSmallPacketsAreRefused(t *testing.T) {
	for version, want := range map[string]struct {
		name  string
		known bool
	}{
		"10.11.19-MariaDB-0+deb12u1": {"mariadb 10.11.19", true},
		"5.5.5-11.4.2-MariaDB-ubu":   {"mariadb 11.4.2", true},
		"10.5.9-MariaDB":             {"mariadb 10.5.9", false},
		"8.0.36":                     {"mysql 8.0.36", true},
		"8.4.0-0ubuntu0":             {"mysql 8.4.0", true},
		"9.1.0":                      {"mysql 9.1.0", true},
		"5.7.44-log":                 {"mysql 5.7.44", false},
		"8.0.11-TiDB-v8.5.3":         {"tidb 8.5.3", true},
		"8.0.11-TiDB-v9.0.0-beta.2":  {"tidb 9.0.0", true},
		"8.0.11-TiDB-v8.1.2":         {"tidb 8.1.2", false},
		"something":                  {"mysql something", false},
	} {
		s := parseServer(version)
		s.maxPacket = minPacket
		if s.String() != want.name || (s.check() == nil) != want.known {
			t.Errorf("%s: %s, %v", version, s, s.check())
		}
		s.maxPacket--
		if s.check() == nil {
			t.Errorf("%s: a small max_allowed_packet is accepted", version)
		}
	}
}
