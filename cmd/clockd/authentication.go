package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/access"
	"github.com/clockd/clockd/store"
)

// accessFlags say who may use the interfaces.
type accessFlags struct {
	Auth               string        `env:"CLOCKD_AUTH" default:"auto" enum:"auto,required,none" help:"auto, required or none: whether requests need an access token. Auto needs none on loopback while no token exists."`
	TokenRate          int           `env:"CLOCKD_TOKEN_RATE" default:"0" help:"Operations a second of one token at this node, at most: requests, items of batches, lines (0: no limit)."`
	SessionLifetime    time.Duration `env:"CLOCKD_SESSION_LIFETIME" default:"12h" help:"Longest time of a session of the console."`
	BootstrapTokenFile string        `env:"CLOCKD_BOOTSTRAP_TOKEN_FILE" placeholder:"FILE" help:"File with the text of a token (clockd token generate). At start it becomes a token of the role admin, unless it is one."`
}

// loopback reports whether a listen address is on loopback alone.
func loopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.Unmap().IsLoopback()
}

// newAccess returns the watch of access tokens.
func newAccess(
	cfg *config, st store.Store, tb *clock.Timebase, trail *access.Trail, log *slog.Logger, reg prometheus.Registerer,
) (*access.Watch, error) {
	mode, err := access.ParseMode(cfg.Auth)
	if err != nil {
		return nil, err
	}
	w := access.NewWatch(access.Config{Mode: mode, Loopback: loopback(cfg.Listen), Rate: cfg.TokenRate,
		People: cfg.oidc.Fingerprint()},
		access.Deps{Source: st, Now: tb.AtLeast, Trail: trail, Log: log})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "clockd_access_tokens_age_seconds",
		Help: "Time since this node knew that its access tokens are current. Normally about a second.",
	}, func() float64 { return w.Age().Seconds() }))
	return w, nil
}

// newSessions returns what starts and ends sessions of the console.
func newSessions(cfg *config, st store.Store, tokens *access.Watch) *access.Sessions {
	return access.NewSessions(tokens, st, cfg.SessionLifetime)
}

// newTrail returns what records refusals and logins in the audit.
func newTrail(st store.Store, tb *clock.Timebase, log *slog.Logger) *access.Trail {
	return access.NewTrail(access.TrailDeps{Write: st.AddActs, Now: tb.AtLeast, Log: log})
}

// bootstrapName is the name of the token in the bootstrap file, and of its maker.
const bootstrapName = "bootstrap"

// bootstrap makes the token of the bootstrap file, unless it exists. A revoked one stays revoked.
func bootstrap(cfg *config, st store.Store, tb *clock.Timebase, log *slog.Logger) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		if cfg.BootstrapTokenFile == "" {
			return nil
		}
		content, err := os.ReadFile(cfg.BootstrapTokenFile)
		if err != nil {
			return fmt.Errorf("CLOCKD_BOOTSTRAP_TOKEN_FILE: %w", err)
		}
		text, err := access.ParseText(strings.TrimSpace(string(content)))
		if err != nil {
			return fmt.Errorf("CLOCKD_BOOTSTRAP_TOKEN_FILE: %s: %w", cfg.BootstrapTokenFile, err)
		}
		now, err := tb.AtLeast()
		if err != nil {
			return err
		}
		t, err := access.New(text, bootstrapName, access.Administrator, access.Applications{"*"}, now, bootstrapName)
		if err != nil {
			return err
		}
		added, err := st.AddToken(ctx, t)
		if added {
			log.Info("the bootstrap token is new", "token", t.ID)
		}
		return err
	}
}

// untilAvailable returns a step that repeats do while the database is unavailable.
func untilAvailable(do func(ctx context.Context) error) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		for {
			err := do(ctx)
			if err == nil || !errors.Is(err, clock.ErrUnavailable) || ctx.Err() != nil {
				return err
			}
			select {
			case <-ctx.Done():
				return err
			case <-time.After(time.Second):
			}
		}
	}
}

// authenticationWarning returns what is wrong with the authentication of requests, "" if nothing is.
func authenticationWarning(w *access.Watch, listen string) string {
	all, unreadable := w.Tokens()
	switch {
	case w.Mode() == access.None:
		return fmt.Sprintf("CLOCKD_AUTH=none: everyone who reaches %s can set, cancel and read every alarm", listen)
	case w.Open():
		return ""
	case all == 0 && !w.People():
		return "no access token exists, so every request is refused: make one with " + access.HowToMake
	case unreadable > 0:
		return fmt.Sprintf("%d access tokens cannot be read, so they open nothing; clockd token list says why",
			unreadable)
	case w.Age() > access.StaleAfter:
		return fmt.Sprintf("access tokens were last read %s ago: a revocation since then does not apply yet",
			w.Age().Round(time.Second))
	}
	return ""
}
