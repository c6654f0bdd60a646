package repeat

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

//go:generate go run gen_zoneinfo.go

// zoneArchive is the file lib/time/zoneinfo.zip of the Go toolchain. time/tzdata has the same data, but
// time.LoadLocation prefers the data of the operating system, so nodes could differ.
//
//go:embed zoneinfo.zip
var zoneArchive []byte

// ZoneData is one version of the IANA time-zone database. It is safe for concurrent use.
type ZoneData struct {
	version string
	files   map[string]*zip.File // by time-zone name
	loaded  sync.Map             // zones by name; bounded by the number of time zones
	digests func() map[string]string
}

// NewZoneData reads an archive with one file for each time zone, such as lib/time/zoneinfo.zip of the Go toolchain.
// Later versions have greater names: 2025c is before 2026a.
func NewZoneData(version string, archive []byte) (*ZoneData, error) {
	reader, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fmt.Errorf("read time-zone data %s: %w", version, err)
	}
	d := &ZoneData{version: version, files: map[string]*zip.File{}}
	for _, f := range reader.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			d.files[f.Name] = f
		}
	}
	d.digests = sync.OnceValue(d.digestAll)
	return d, nil
}

var embeddedData = sync.OnceValue(func() *ZoneData {
	d, err := NewZoneData(zoneVersion, zoneArchive)
	if err != nil {
		panic("repeat: " + err.Error())
	}
	return d
})

// replacedData is the data that this process uses instead of the embedded data; nil: it uses the embedded data.
var replacedData atomic.Pointer[ZoneData]

// Data returns the time-zone data that this process uses: the embedded data, unless ReplaceData has replaced it.
func Data() *ZoneData {
	if d := replacedData.Load(); d != nil {
		return d
	}
	return embeddedData()
}

// ReplaceData makes this process use other time-zone data, until restore is called. Rules and local times that were
// parsed before keep their data. It is for tests, which cannot wait for a government.
func ReplaceData(d *ZoneData) (restore func()) {
	before := replacedData.Swap(d)
	return func() { replacedData.Store(before) }
}

// With returns another version of the data: each zone that is a key of rules has the rules of the zone that is its
// value. It is for tests.
func (d *ZoneData) With(version string, rules map[string]string) *ZoneData {
	other := &ZoneData{version: version, files: maps.Clone(d.files)}
	for name, source := range rules {
		other.files[name] = d.files[source]
	}
	other.digests = sync.OnceValue(other.digestAll)
	return other
}

// Version returns the version of the database, such as 2025c.
func (d *ZoneData) Version() string { return d.version }

// Names returns the names of all time zones, sorted.
func (d *ZoneData) Names() []string { return slices.Sorted(maps.Keys(d.files)) }

// The years that a digest covers. Clocks before them have no effect on future alarms. The latest change that the
// database lists by its date is in the year 2087; after it each zone goes on by a yearly rule.
const (
	firstDigestYear = 2020
	lastDigestYear  = 2100
)

// Digests returns a digest of each time zone, by name. Two versions have the same digest of a zone if its local clock
// shows the same in both, in the years from 2020 to 2100. The caller must not change the map.
func (d *ZoneData) Digests() map[string]string { return d.digests() }

func (d *ZoneData) digestAll() map[string]string {
	digests := make(map[string]string, len(d.files))
	for name := range d.files {
		if z, err := d.zone(name); err == nil {
			digests[name] = z.digest()
		}
	}
	return digests
}

// zone returns the zone with an IANA name, in exactly its spelling.
func (d *ZoneData) zone(name string) (zone, error) {
	if loaded, ok := d.loaded.Load(name); ok {
		return loaded.(zone), nil //nolint:errcheck // the cache has no other type
	}
	file := d.files[name]
	if file == nil {
		reason := fmt.Sprintf("%.64q is not the name of an IANA time zone (tzdata %s)", name, d.version)
		if similar := d.similar(name); similar != "" {
			reason += "; did you mean " + similar + "?"
		}
		return zone{}, refuse("time_zone", "%s", reason)
	}
	location, err := readZone(name, file)
	if err != nil {
		return zone{}, fmt.Errorf("read time zone %s: %w", name, err)
	}
	z := zone{location: location}
	d.loaded.Store(name, z)
	return z, nil
}

// similar returns the first name that is name in another case, or that ends with name after a slash; "": there is none.
func (d *ZoneData) similar(name string) string {
	name = strings.ReplaceAll(name, " ", "_")
	var found []string
	for known := range d.files {
		if _, city, _ := strings.Cut(known, "/"); strings.EqualFold(known, name) || strings.EqualFold(city, name) {
			found = append(found, known)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return slices.Min(found)
}

func readZone(name string, file *zip.File) (*time.Location, error) {
	content, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer content.Close()
	data, err := io.ReadAll(content)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(name, data)
}

// digest returns a digest of the offsets of the local clock.
func (z zone) digest() string {
	const digestBytes = 6
	hash := sha256.New()
	end := time.Date(lastDigestYear, 12, 31, 0, 0, 0, 0, time.UTC).Unix()
	last := int64(-1) << 62
	for at := time.Date(firstDigestYear, 1, 1, 0, 0, 0, 0, time.UTC).Unix(); at < end; {
		s := z.spanAt(at)
		if s.offset != last {
			hash.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, uint64(at)), uint64(s.offset)))
		}
		at, last = s.end, s.offset
	}
	return hex.EncodeToString(hash.Sum(nil)[:digestBytes])
}
