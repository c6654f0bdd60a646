package storetest

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/manifest"
)

// manifestChange returns a change of an application's record of manifests.
func manifestChange(application, document string, ifVersion int64, at clock.Instant) manifest.Change {
	by := clock.Actor{Name: "näme’ of " + application, Token: "0123456789ab"}
	return manifest.Change{Application: application, Document: document, IfVersion: ifVersion, At: at, By: by,
		Act: clock.Act{At: at, Actor: by, Action: "manifest", Application: application, Subject: "jobs",
			After: `{"create":1}`}}
}

// recordOf returns the record that the change makes.
func recordOf(c manifest.Change, version int64) manifest.Stored {
	return manifest.Stored{Application: c.Application, Version: version, Document: c.Document, ChangedAt: c.At,
		ChangedBy: c.By.Name}
}

func (f *fixture) manifests(application string) manifest.Stored {
	f.t.Helper()
	stored, err := f.Manifests(f.t.Context(), application)
	ok(f.t, err, "read manifests")
	return stored
}

// testManifests demands versions and acts of the records of manifests, and that they do not touch settings.
func testManifests(t *testing.T, f *fixture) {
	none := manifest.Stored{Application: "shop", ChangedAt: clock.NoInstant}
	same(t, "no record", f.manifests("shop"), none)
	long := `{"ünicode":"` + strings.Repeat("☃", 50_000) + `"}`
	first, second := manifestChange("shop", long, 0, t0), manifestChange("shop", "{}", 1, t0+5)
	for i, c := range []manifest.Change{first, second, manifestChange("Shop", `{"a":1}`, 0, t0)} {
		stored, err := f.ChangeManifests(t.Context(), c)
		ok(t, err, "change manifests")
		version := c.IfVersion + 1
		same(t, "written record", stored, recordOf(c, version))
		same(t, "record", f.manifests(c.Application), stored)
		same(t, "newest act", f.acts(clock.ActsQuery{Limit: 1})[0].After, c.Act.After)
		same(t, "number of acts", len(f.acts(clock.ActsQuery{Limit: 9})), i+1)
	}
	for _, version := range []int64{0, 1, 3, -1} {
		_, err := f.ChangeManifests(t.Context(), manifestChange("shop", `{"lost":1}`, version, t0+9))
		if !errors.Is(err, clock.ErrPrecondition) {
			t.Errorf("a change of version %d: %v", version, err)
		}
	}
	quiet := manifestChange("Shop", `{"a":2}`, 1, t0+6)
	quiet.Act = clock.Act{}
	stored, err := f.ChangeManifests(t.Context(), quiet)
	ok(t, err, "change manifests without an act")
	same(t, "record without an act", stored, recordOf(quiet, 2))
	same(t, "record after refused changes", f.manifests("shop"), recordOf(second, 2))
	same(t, "acts after refused changes", len(f.acts(clock.ActsQuery{Limit: 9})), 3)
	for after, wanted := range map[string][]string{"": {"Shop", "shop"}, "Shop": {"shop"}, "shop": {}} {
		next, err := f.NextManifests(t.Context(), after, 9)
		ok(t, err, "next manifests")
		names := []string{}
		for i := range next {
			names = append(names, next[i].Application)
			same(t, "listed record", next[i], f.manifests(next[i].Application))
		}
		same(t, "applications after "+after, names, wanted)
	}
	next, err := f.NextManifests(t.Context(), "", 1)
	ok(t, err, "next manifests")
	same(t, "number of records of a page", len(next), 1)
	all, err := f.AllSettings(t.Context())
	ok(t, err, "all settings")
	same(t, "number of settings", len(all), 0)
}

// testRacingManifests demands that one condition lets one change succeed, of several at once.
func testRacingManifests(t *testing.T, f *fixture) {
	const writers, changes = 4, 15
	won := make(chan int64, writers*changes)
	var g errgroup.Group
	for i := range writers {
		s := f
		if i > 0 {
			s = f.other()
		}
		g.Go(func() error {
			for n := range int64(changes) {
				stored, err := s.ChangeManifests(t.Context(), manifestChange("shop", "{}", n, t0))
				if errors.Is(err, clock.ErrPrecondition) {
					continue
				}
				if err != nil {
					return err
				}
				won <- stored.Version
			}
			return nil
		})
	}
	ok(t, g.Wait(), "change at once")
	close(won)
	wins := map[int64]int{}
	for version := range won {
		wins[version]++
	}
	for version, n := range wins {
		same(t, "writers of a version", n, 1)
		if version > changes {
			t.Errorf("version %d", version)
		}
	}
	same(t, "versions", int64(len(wins)), f.manifests("shop").Version)
}
