package rabbit

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/clockd/clockd/ring/rabbit/internal/rabbittest"
)

func TestValidateGivesEveryReason(t *testing.T) {
	t.Parallel()
	if err := (Config{}).Validate(); err == nil {
		t.Fatal("an empty configuration is valid")
	} else if n := len(strings.Split(err.Error(), "\n")); n != 10 {
		t.Errorf("%d reasons:\n%v", n, err)
	}
	cfg := DefaultConfig()
	cfg.URL = "amqp://localhost"
	if err := cfg.Validate(); err != nil {
		t.Errorf("the defaults are not valid: %v", err)
	}
	for name, breakIt := range map[string]func(*Config){
		"no AMQP URL":           func(c *Config) { c.URL = "" },
		"URL is not valid":      func(c *Config) { c.URL = "http://localhost" },
		"needs a name":          func(c *Config) { c.Exchange = "" },
		"at most 127":           func(c *Config) { c.Exchange = strings.Repeat("x", 128) },
		"no application's name": func(c *Config) { c.DeclareQueues = []string{"shop", "a b"} },
		"headers must be":       func(c *Config) { c.Headers = "all" },
		"below 1s":              func(c *Config) { c.Heartbeat = time.Millisecond },
		"below the shortest":    func(c *Config) { c.BackoffMax = time.Millisecond },
		"prefetch":              func(c *Config) { c.AnswerPrefetch = 10_001 },
		"management URL":        func(c *Config) { c.ManagementURL = "amqp://localhost" },
		"cannot be negative":    func(c *Config) { c.GatherBytes = -1 },
	} {
		broken := cfg
		breakIt(&broken)
		if err := broken.Validate(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const secret = "s3cr%C3%A9t-pw"

// Whatever is wrong with a URL, no error, log line or result of Usable contains the password.
func TestPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	accepted := map[string]bool{"nobody listens": true, "refused": true, "unknown vhost": true, "bad mechanism": true,
		"hosts refuse": true, "at in list": true}
	for name, url := range map[string]string{
		"bad port":       "amqp://user:" + secret + "@localhost:port/",
		"bad escape":     "amqp://user:" + secret + "%zz@localhost/",
		"blank":          "amqp://user:" + secret + " @localhost/",
		"control":        "amqp://user:" + secret + "\x01@localhost/",
		"other scheme":   "amq://user:" + secret + "@localhost/",
		"slash":          "amqp://user:" + secret + "/x@localhost/",
		"bare hash":      "amqp://user:12#" + secret + "@localhost/",
		"bare question":  "amqp://user:12?" + secret + "@localhost/",
		"bare slash":     "amqp://user:12/" + secret + "@localhost/",
		"bad heartbeat":  "amqp://user:" + secret + "@localhost/?heartbeat=" + secret,
		"nobody listens": "amqp://user:" + secret + "@127.0.0.1:1/",
		"refused":        strings.Replace(rabbittest.SharedURL, "guest:guest", "guest:"+secret, 1),
		"unknown vhost":  rabbittest.SharedURL + "nowhere-" + rabbittest.Unique("vhost"),
		"bad mechanism":  "amqp://user:" + secret + "@localhost/?auth_mechanism=none",
		"no such file":   "amqps://user:" + secret + "@127.0.0.1:1/?cacertfile=/nowhere",
		"hosts refuse":   "amqp://user:" + secret + "@127.0.0.1:1,127.0.0.2:1/",
		"empty host":     "amqp://user:" + secret + "@127.0.0.1:1,/",
		"host twice":     "amqp://user:" + secret + "@127.0.0.1:1,127.0.0.1:1/",
		"bad port later": "amqp://user:" + secret + "@127.0.0.1:1,localhost:port/",
		"slash in list":  "amqp://user:1," + secret + "/x@127.0.0.1:1/",
		"at in list":     "amqp://h1,user:" + secret + "@h2@127.0.0.1:1/",
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			cfg := DefaultConfig()
			cfg.URL = url
			cfg.BackoffMin, cfg.BackoffMax = time.Hour, time.Hour
			fmt.Fprintf(&out, "%v %+v %s %v\n", cfg, cfg, cfg, cfg.LogValue())
			log := slog.New(slog.NewJSONHandler(&out, nil))
			log.Info("configured", "rabbit", cfg)
			s, err := New(cfg, Deps{Log: log})
			if good := err == nil; good != accepted[name] {
				t.Errorf("accepted: %v", good)
			}
			if err == nil {
				err = firstConnectError(t, s)
			}
			fmt.Fprintln(&out, err)
			t.Log(err)
			for _, word := range []string{secret, "s3cr", "t-pw"} {
				if strings.Contains(out.String(), word) {
					t.Errorf("the password is in\n%s", out.String())
				}
			}
		})
	}
}

// The same holds for the URL of the management API.
func TestManagementPasswordIsNeverShown(t *testing.T) {
	t.Parallel()
	valid := map[string]bool{"nobody listens": true, "prefix": true}
	for name, url := range map[string]string{
		"nobody listens": "http://user:" + secret + "@127.0.0.1:1",
		"prefix":         "http://user:" + secret + "@127.0.0.1:1/rabbit/",
		"bad escape":     "http://user:" + secret + "%zz@localhost",
		"bare hash":      "http://user:12#" + secret + "@localhost",
		"bare question":  "http://user:12?" + secret + "@localhost",
		"bare slash":     "http://user:12/" + secret + "@localhost",
		"other scheme":   "htp://user:" + secret + "@localhost",
		"no host":        "http:user:" + secret,
	} {
		cfg := DefaultConfig()
		cfg.URL, cfg.ManagementURL = rabbittest.SharedURL, url
		out := fmt.Sprintf("%v %+v %v", cfg, cfg, cfg.LogValue())
		s, err := New(cfg, Deps{})
		if good := err == nil; good != valid[name] {
			t.Errorf("%s is valid: %v", name, good)
		}
		if err == nil {
			_, err = s.Findings(t.Context())
		}
		if out += fmt.Sprint(err); err == nil || strings.Contains(out, "s3cr") || strings.Contains(out, "t-pw") {
			t.Errorf("%s: %s", name, out)
		}
	}
}

// firstConnectError runs s until it has failed to connect, and returns the error.
func firstConnectError(t *testing.T, s *Session) (trouble error) {
	ctx, cancel := context.WithTimeout(t.Context(), rabbittest.HangGuard)
	defer cancel()
	first := s.Usable().Error()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	rabbittest.Eventually(t, 5*time.Second, "a failed connection", func() bool {
		trouble = s.Usable()
		return trouble.Error() != first
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return trouble
}
