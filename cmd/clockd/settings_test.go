package main

import (
	"context"
	"encoding/base64"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/clockd/clockd/clock/settings"
)

// A new node ends if it lacks the key of a change. An older one goes on.
func TestOldNodeGoesOnWithoutAKey(t *testing.T) {
	keys, err := settings.ParseKeys(base64.StdEncoding.EncodeToString(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := settingsForm.WithKeys(keys).Seal("shop",
		`{"webhook":{"url":"https://a.example/","secrets":["`+settingsSecret+`"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	for age, ends := range map[time.Duration]bool{0: true, unseen + time.Second: false} {
		synctest.Test(t, func(t *testing.T) {
			source := &sealedLater{document: sealed}
			watch := settings.NewWatch(settingsForm, source, slog.New(slog.DiscardHandler))
			gate := newClaimGate(watch)
			if err := watch.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			gate.joined()
			time.Sleep(age)
			source.changes.Add(1)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			err := pollSettings(watch, gate)(ctx)
			if ended := ctx.Err() == nil; ended != ends || (err != nil) != ends {
				t.Errorf("after %s: ended %v, %v", age, ended, err)
			}
			if detail := settingsCheck(watch, nil).Detail; !strings.Contains(detail, "the alarms of shop wait") ||
				!strings.Contains(detail, "is not given here (CLOCKD_SECRET_KEY_FILE)") {
				t.Errorf("readiness: %s", detail)
			}
		})
	}
}

// sealedLater is a database whose first change brings sealed settings of shop.
type sealedLater struct {
	changes  atomic.Int64
	document string
}

func (s *sealedLater) SettingChanges(context.Context) (int64, error) { return s.changes.Load(), nil }

func (s *sealedLater) AllSettings(context.Context) ([]settings.Version, error) {
	if s.changes.Load() == 0 {
		return nil, nil
	}
	return []settings.Version{{Application: "shop", Version: 1, Document: s.document}}, nil
}
