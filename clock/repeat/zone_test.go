package repeat

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestVersionBelongsToTheEmbeddedData(t *testing.T) {
	sum := sha256.Sum256(zoneArchive)
	if got := hex.EncodeToString(sum[:]); got != zoneChecksum {
		t.Errorf("zoneinfo.zip has the checksum %s, but version %s has %s: run go generate", got, zoneVersion,
			zoneChecksum)
	}
}

func TestEmbeddedDataIsNotOlderThanThatOfGo(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	script, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "lib", "time", "update.bash"))
	if err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`(?m)^DATA=(\S+)$`).FindStringSubmatch(string(script))
	if len(version) < 2 || Data().Version() < version[1] {
		t.Errorf("the embedded time-zone data is %s, that of Go is %v: run go generate", Data().Version(), version)
	}
}

func TestEveryTimeZoneLoads(t *testing.T) {
	names := Data().Names()
	if len(names) < 590 {
		t.Errorf("%d time zones", len(names))
	}
	for _, name := range names {
		if _, err := loadZone(name); err != nil {
			t.Error(err)
		}
	}
}

// On 31 December of a leap year time.Time.ZoneBounds returns an end that has passed. A span never does.
func TestSpansEndAfterTheirInstant(t *testing.T) {
	for _, name := range Data().Names() {
		z, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, year := range []int{1996, 2028, 2032} {
			for hour := range 48 {
				at := time.Date(year, time.December, 31, hour-12, 0, 0, 0, time.UTC).Unix()
				if s := z.spanAt(at); s.start > at || s.end <= at {
					t.Fatalf("%s: the span of %s is %+v", name, rfc3339(at*1000), s)
				}
			}
		}
	}
}

// Each span begins where the one before it ends, also at the last transition that the data list by its date.
func TestSpansFollowEachOther(t *testing.T) {
	begin, end := int64(0), time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	for _, name := range Data().Names() {
		z, err := loadZone(name)
		if err != nil {
			t.Fatal(err)
		}
		for s := z.spanAt(begin); s.end < end; {
			next := z.spanAt(s.end)
			if next.offset != s.offset && next.start != s.end { // else they may overlap: see spanAt
				t.Errorf("%s: after the span until %s comes one from %s", name, rfc3339(s.end*1000),
					rfc3339(next.start*1000))
			}
			s = next
		}
	}
}

func TestReplacedDataAppliesToWhatIsParsedLater(t *testing.T) {
	const text = "2027-01-15T12:00:00"
	before, err := ParseLocal(text, "Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	restore := ReplaceData(Data().With("2099a", map[string]string{"Europe/Berlin": "Asia/Tokyo"}))
	after, err := ParseLocal(text, "Europe/Berlin")
	version := Data().Version()
	restore()
	if err != nil || version != "2099a" || Data().Version() != zoneVersion {
		t.Errorf("the versions were %s and %s: %v", version, Data().Version(), err)
	}
	if got := before.Instant() - after.Instant(); got != 8*time.Hour.Milliseconds() {
		t.Errorf("noon in Berlin moved by %d ms", got)
	}
}

func TestDigestsDifferOnlyWhereTheLocalClockDiffers(t *testing.T) {
	before := Data().Digests()
	after := Data().With("2099a",
		map[string]string{"Europe/Berlin": "Asia/Tokyo", "Europe/Rome": "Europe/Vienna"}).Digests()
	if len(before) != len(Data().Names()) || len(after) != len(before) {
		t.Errorf("%d and %d digests", len(before), len(after))
	}
	for name, digest := range before {
		if changed := digest != after[name]; changed != (name == "Europe/Berlin") {
			t.Errorf("%s: the digest has changed: %v", name, changed)
		}
	}
	for _, pair := range [][2]string{{"Europe/Berlin", "Europe/Paris"}, {"Asia/Kolkata", "Asia/Calcutta"}} {
		if before[pair[0]] != before[pair[1]] {
			t.Errorf("%s and %s have had the same clock since 2020, but their digests differ", pair[0], pair[1])
		}
	}
	if before["Europe/Berlin"] == before["Africa/Algiers"] {
		t.Error("Berlin and Algiers have one digest, but Algiers has no summer time")
	}
}

func BenchmarkDigests(b *testing.B) {
	for b.Loop() {
		Data().With("2099a", nil).Digests()
	}
}
