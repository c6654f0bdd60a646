package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// Target is the database to import into. engine.Store implements it.
type Target interface {
	IsEmpty(ctx context.Context) (bool, error)
	Time(ctx context.Context) (micros int64, err error)
	Restore(ctx context.Context, alarms []engine.ArchivedAlarm) ([]engine.Restored, error)
	Settings(ctx context.Context, application string) (settings.Version, error)
	ChangeSettings(ctx context.Context, change settings.Change) (settings.Version, error)
}

// Options of Import.
type Options struct {
	Form        *settings.Form               // of the documents with settings
	Merge       bool                         // the database may have alarms
	SkipInvalid bool                         // pass over lines that cannot be read
	By          string                       // name of the person, for the history of settings
	Progress    func(Result)                 // called after each group of alarms
	Skipped     func(line int, reason error) // called for each line that is passed over
	Different   func(what string)            // called for each alarm, and each application, that exists and differs
}

// Result has the counts of an import.
type Result struct {
	Line      int // number of the last line whose alarm or settings are stored
	Created   int // alarms stored
	Present   int // alarms that were there already, equal
	Different int // alarms that were there already, and differ; they stay as they are
	Settings  int // settings stored, or there already and equal
	Unlike    int // settings that were there already, and differ; they stay as they are
	Invalid   int // lines passed over
}

// Errors of Import and FindPosition.
var (
	ErrNotEmpty   = errors.New("the database has alarms already")
	ErrIncomplete = errors.New("the file is not complete: its last line is not the end of an export")
	errNoHeader   = errors.New("the file is no export of clockd: its first line is not clockd_export")
	errLongLine   = fmt.Errorf("a line is longer than %d bytes", maxLine)
)

// The size of a group of alarms that Import stores together. A group has at most one alarm beyond groupBytes.
const (
	groupAlarms = 500
	groupBytes  = 2 << 20
)

// Import stores the settings and alarms of a file. It returns its counts, also with an error.
func Import(ctx context.Context, file io.Reader, to Target, options Options) (Result, error) {
	if !options.Merge {
		isEmpty, err := to.IsEmpty(ctx)
		if err != nil {
			return Result{}, err
		}
		if !isEmpty {
			return Result{}, ErrNotEmpty
		}
	}
	i := &importer{to: to, options: options}
	err := i.run(ctx, newLineReader(file))
	return i.result, err
}

// importer is one call of Import.
type importer struct {
	to      Target
	options Options
	result  Result
	end     *End
	known   map[string]settings.Settings // settings of applications whose alarms name destinations, as they are now

	group []engine.ArchivedAlarm
	keys  map[clock.Key]bool // of the group
	bytes int                // of the group's payloads
	line  int                // number of the last line in the group
}

func (i *importer) run(ctx context.Context, lines *lineReader) error {
	alarms := 0
	for {
		text, whole, err := lines.next()
		if err != nil {
			return fmt.Errorf("read line %d: %w", lines.number, err)
		}
		if !whole {
			break
		}
		line, err := ParseLine(text, i.options.Form)
		if lines.number == 1 && (err != nil || line.Header == nil) {
			return errors.Join(errNoHeader, err)
		}
		if err != nil {
			if !i.options.SkipInvalid || settings.Sealed(err) { // without its settings an application rings elsewhere
				return errors.Join(i.flush(ctx), fmt.Errorf("line %d: %w", lines.number, err))
			}
			i.result.Invalid++
			i.options.Skipped(lines.number, err)
			continue
		}
		if line.Alarm != nil {
			alarms++
		}
		if err := i.take(ctx, line, lines.number); err != nil {
			return err
		}
	}
	if err := i.flush(ctx); err != nil {
		return err
	}
	if i.end == nil || i.end.Alarms < alarms || i.end.Alarms > alarms+i.result.Invalid { // an invalid line may be no alarm
		return ErrIncomplete
	}
	return nil
}

// take stores a line, or keeps its alarm for the next group.
func (i *importer) take(ctx context.Context, line *Line, number int) error {
	i.end = line.End
	switch {
	case line.Settings != nil:
		delete(i.known, line.Settings.Application)
		if err := i.storeSettings(ctx, line.Settings); err != nil {
			return fmt.Errorf("line %d: settings of %s: %w", number, line.Settings.Application, err)
		}
		i.result.Line = number
	case line.Alarm != nil:
		if err := i.renumber(ctx, line.Alarm); err != nil {
			return errors.Join(i.flush(ctx), fmt.Errorf("line %d: %w", number, err))
		}
		key := clock.Key{Application: line.Alarm.Application, BusinessID: line.Alarm.BusinessID}
		if len(i.group) >= groupAlarms || i.bytes >= groupBytes || i.keys[key] {
			if err := i.flush(ctx); err != nil {
				return err
			}
		}
		if i.keys == nil {
			i.keys = make(map[clock.Key]bool, groupAlarms)
		}
		i.group, i.keys[key], i.bytes, i.line = append(i.group, *line.Alarm), true, i.bytes+len(line.Alarm.Payload), number
	}
	return nil
}

// renumber gives an alarm the number that its destination has in this database. It may have other settings than the
// exported one, or have made its destinations in another order. An alarm with a receiver of its own keeps its number.
func (i *importer) renumber(ctx context.Context, a *engine.ArchivedAlarm) error {
	if a.Destination == "" || a.Receiver != "" {
		return nil
	}
	known, isKnown := i.known[a.Application]
	if !isKnown {
		version, err := i.to.Settings(ctx, a.Application)
		if err == nil && version.Version > 0 {
			known, err = i.options.Form.Load(&version)
		}
		if err != nil {
			return fmt.Errorf("settings of %s: %w", a.Application, err)
		}
		if i.known == nil {
			i.known = map[string]settings.Settings{}
		}
		i.known[a.Application] = known
	}
	named := store.NamedOfRank(int(a.DueRank))
	target := clock.TargetText(named.Target, a.Destination)
	if named.Destination = known.NumberOf(target); named.Destination == 0 {
		return fmt.Errorf("the settings that application %s has in this database never had the destination %s: make it, "+
			"and import again with --merge", a.Application, target)
	}
	a.DueRank = int64(store.Rank(named, int(a.Priority)))
	return nil
}

// flush stores the group.
func (i *importer) flush(ctx context.Context) error {
	if len(i.group) == 0 {
		return nil
	}
	effects, err := i.to.Restore(ctx, i.group)
	if err != nil {
		return fmt.Errorf("store the alarms of lines %d to %d: %w", i.result.Line+1, i.line, err)
	}
	for n, effect := range effects {
		switch effect {
		case engine.Created:
			i.result.Created++
		case engine.Present:
			i.result.Present++
		case engine.Different:
			i.result.Different++
			i.options.Different(fmt.Sprintf("alarm %s of %s", i.group[n].BusinessID, i.group[n].Application))
		}
	}
	i.result.Line = i.line
	clear(i.group) // drops the payloads
	clear(i.keys)
	i.group, i.bytes = i.group[:0], 0
	i.options.Progress(i.result)
	return nil
}

// storeSettings stores settings, unless the application has settings.
func (i *importer) storeSettings(ctx context.Context, s *Settings) error {
	document, err := i.options.Form.Open(s.Application, string(s.Document))
	if err != nil {
		return err
	}
	present, err := i.to.Settings(ctx, s.Application)
	if err != nil {
		return err
	}
	is, unread := i.options.Form.Open(s.Application, present.Document)
	switch {
	case present.Version > 0 && unread == nil && sameJSON([]byte(is), []byte(document)):
		i.result.Settings++
		return nil
	case present.Version > 0:
		i.result.Unlike++
		i.options.Different("settings of " + s.Application)
		return nil
	}
	stored, err := i.options.Form.Seal(s.Application, document)
	if err != nil {
		return err
	}
	micros, err := i.to.Time(ctx)
	if err != nil {
		return err
	}
	_, err = i.to.ChangeSettings(ctx, settings.Change{
		Application: s.Application, Document: stored, At: clock.Instant(micros / 1000),
		By: clock.Actor{Name: i.options.By}, IfVersion: 0,
	})
	if err == nil {
		i.result.Settings++
	}
	return err
}

// sameJSON reports whether two documents are the same value.
func sameJSON(a, b []byte) bool {
	var x, y any
	if json.Unmarshal(a, &x) != nil || json.Unmarshal(b, &y) != nil {
		return bytes.Equal(a, b)
	}
	return reflect.DeepEqual(x, y)
}

// maxLine is the longest line: the longest payload in base64, and room for the other columns and the attempts.
const maxLine = clock.MaxStoredPayload/3*4 + 1<<20

// lineReader reads lines of a bounded length.
type lineReader struct {
	r      *bufio.Reader
	line   []byte
	number int // of the last line that next has begun, from 1
}

func newLineReader(r io.Reader) *lineReader { return &lineReader{r: bufio.NewReaderSize(r, 1<<18)} }

// next returns the next line without its line break, valid until the next call. whole is false at the end of the input,
// and for a line without a line break.
func (l *lineReader) next() (line []byte, whole bool, err error) {
	l.line = l.line[:0]
	l.number++
	for {
		part, err := l.r.ReadSlice('\n')
		l.line = append(l.line, part...)
		switch {
		case len(l.line) > maxLine:
			return nil, false, errLongLine
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return nil, false, nil
		case err != nil:
			return nil, false, err
		default:
			return l.line[:len(l.line)-1], true, nil
		}
	}
}
