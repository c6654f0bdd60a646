package archive

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store/engine"
)

// Source is the database to export. engine.Store implements it.
type Source interface {
	Engine() string
	Time(ctx context.Context) (micros int64, err error)
	Archive(ctx context.Context, after int64, settings func([]settings.Version) error, page func([]engine.ArchivedAlarm) error) error
}

// Position says how far a file goes.
type Position struct {
	After    int64 // id of the last alarm in the file; 0 without one
	Alarms   int   // alarms in the file
	Complete bool  // the file has its last line
}

// Export writes a part of a file, after the alarms that the file has already. After each page it calls progress with
// the new position. It returns the last position, also with an error.
func Export(ctx context.Context, from Source, to io.Writer, at Position, progress func(Position)) (Position, error) {
	micros, err := from.Time(ctx)
	if err != nil {
		return at, err
	}
	out := &lineWriter{w: bufio.NewWriterSize(to, 1<<18)}
	taken := clock.Instant(micros / 1000).String()
	if err := out.write(&Line{Header: &Header{Version: formatVersion, Engine: from.Engine(), TakenAt: taken}}); err != nil {
		return at, err
	}
	end := End{}
	settings := func(all []settings.Version) error {
		end.Settings = len(all)
		for i := range all {
			s := &Settings{Application: all[i].Application, Document: json.RawMessage(all[i].Document)}
			if err := out.write(&Line{Settings: s}); err != nil {
				return fmt.Errorf("settings of %s: %w", s.Application, err)
			}
		}
		return nil
	}
	page := func(alarms []engine.ArchivedAlarm) error {
		for i := range alarms {
			if err := out.write(&Line{Alarm: &alarms[i]}); err != nil {
				return err
			}
		}
		if err := out.w.Flush(); err != nil {
			return err
		}
		at.After, at.Alarms = alarms[len(alarms)-1].ID, at.Alarms+len(alarms)
		progress(at)
		return nil
	}
	if err := from.Archive(ctx, at.After, settings, page); err != nil {
		return at, err
	}
	end.Alarms, at.Complete = at.Alarms, true
	if err := out.write(&Line{End: &end}); err != nil {
		return at, err
	}
	return at, out.w.Flush()
}

// lineWriter writes lines.
type lineWriter struct {
	w    *bufio.Writer
	line []byte
}

func (o *lineWriter) write(l *Line) (err error) {
	if o.line, err = appendLine(o.line[:0], l); err != nil {
		return err
	}
	_, err = o.w.Write(o.line)
	return err
}

// FindPosition reads a file that Export has begun. It returns the position after the last whole line, and the length of
// the file up to there. The rest of the file is the beginning of a line.
func FindPosition(file io.Reader) (at Position, length int64, err error) {
	lines := newLineReader(file)
	for {
		text, whole, err := lines.next()
		if err != nil || !whole {
			return at, length, err
		}
		var l struct {
			Header *struct{} `json:"clockd_export"`
			Alarm  *struct {
				ID int64 `json:"id"`
			} `json:"alarm"`
			End *struct{} `json:"end"`
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return at, length, fmt.Errorf("line %d: %w", lines.number, err)
		}
		if lines.number == 1 && l.Header == nil {
			return at, length, errNoHeader
		}
		if l.Alarm != nil {
			at.After, at.Alarms = l.Alarm.ID, at.Alarms+1
		}
		at.Complete = l.End != nil
		length += int64(len(text)) + 1
	}
}
