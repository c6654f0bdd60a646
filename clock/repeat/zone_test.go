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
		t.Errorf("zoneinfo.zip has the checksum %s, but version %s has %s: run go generate", got, zoneVersion, zoneChecksum)
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
	if len(version) < 2 || TimeZoneData() < version[1] {
		t.Errorf("the embedded time-zone data is %s, that of Go is %v: run go generate", TimeZoneData(), version)
	}
}

func TestEveryTimeZoneLoads(t *testing.T) {
	names := TimeZones()
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
	for _, name := range TimeZones() {
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
