package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
	"github.com/clockd/clockd/clock/settings"
	"github.com/clockd/clockd/store"
	"github.com/clockd/clockd/store/engine"
)

// formatVersion is the version of the format. It changes when older builds could misunderstand a file.
const formatVersion = 1

// Header begins each part of a file. Each run of Export writes one part.
type Header struct {
	Version int    `json:"version"`
	Engine  string `json:"engine"`   // engine and version of the exported database
	TakenAt string `json:"taken_at"` // RFC 3339, by the database's clock, shortly before the snapshot
}

// Settings are the settings of an application.
type Settings struct {
	Application string          `json:"application"`
	Document    json.RawMessage `json:"document"`
}

// End ends a complete file.
type End struct {
	Alarms   int `json:"alarms"`   // of the whole file
	Settings int `json:"settings"` // of the last part
}

// Line is a line of a file. One field is set.
type Line struct {
	Header   *Header
	Settings *Settings
	Alarm    *engine.ArchivedAlarm
	End      *End
}

// rawLine is a line as JSON.
type rawLine struct {
	Header   *Header           `json:"clockd_export,omitempty"`
	Settings *Settings         `json:"settings,omitempty"`
	Alarm    json.RawMessage   `json:"alarm,omitempty"`
	Attempts []json.RawMessage `json:"attempts,omitempty"`
	End      *End              `json:"end,omitempty"`
}

// appendLine appends the line and a line break.
func appendLine(b []byte, l *Line) ([]byte, error) {
	raw := rawLine{Header: l.Header, Settings: l.Settings, End: l.End}
	if l.Alarm == nil {
		text, err := json.Marshal(raw)
		return append(append(b, text...), '\n'), err
	}
	b, err := alarmColumns.appendRow(append(b, `{"alarm":`...), reflect.ValueOf(&l.Alarm.Row).Elem())
	if err != nil {
		return nil, err
	}
	for i := range l.Alarm.Attempts {
		b = append(b, attemptSeparator(i)...)
		if b, err = attemptColumns.appendRow(b, reflect.ValueOf(&l.Alarm.Attempts[i]).Elem()); err != nil {
			return nil, err
		}
	}
	if len(l.Alarm.Attempts) > 0 {
		b = append(b, ']')
	}
	return append(b, "}\n"...), nil
}

func attemptSeparator(i int) string {
	if i == 0 {
		return `,"attempts":[`
	}
	return ","
}

var (
	errMembers  = errors.New("it has not exactly one of clockd_export, settings, alarm and end")
	errAttempts = fmt.Errorf("it has more than %d attempts", clock.MaxAttempts)
)

// ParseLine parses a line and checks it. It accepts each line that Export writes for a readable alarm. form is the one
// of documents with settings.
func ParseLine(line []byte, form *settings.Form) (*Line, error) {
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	var raw rawLine
	if err := decoder.Decode(&raw); err != nil {
		return nil, err
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("it has more than one JSON value")
	}
	members := 0
	for _, has := range []bool{raw.Header != nil, raw.Settings != nil, raw.Alarm != nil, raw.End != nil} {
		if has {
			members++
		}
	}
	if members != 1 || raw.Alarm == nil && raw.Attempts != nil {
		return nil, errMembers
	}
	l := &Line{Header: raw.Header, Settings: raw.Settings, End: raw.End}
	switch {
	case raw.Header != nil && raw.Header.Version != formatVersion:
		return nil, fmt.Errorf("the file has version %d of the format; this clockd reads version %d",
			raw.Header.Version, formatVersion)
	case raw.Settings != nil:
		return l, checkSettings(raw.Settings, form)
	case raw.Alarm != nil:
		var err error
		l.Alarm, err = parseAlarm(raw.Alarm, raw.Attempts)
		return l, err
	}
	return l, nil
}

func checkSettings(s *Settings, form *settings.Form) error {
	if err := clock.ValidateApplication(s.Application); err != nil {
		return err
	}
	if _, err := form.Load(&settings.Version{Application: s.Application, Document: string(s.Document)}); err != nil {
		return fmt.Errorf("settings of %s: %w", s.Application, err)
	}
	return nil
}

func parseAlarm(object []byte, attempts []json.RawMessage) (*engine.ArchivedAlarm, error) {
	a := &engine.ArchivedAlarm{Row: engine.Row{Payload: []byte{}}}
	if err := alarmColumns.parseRow(object, reflect.ValueOf(&a.Row).Elem()); err != nil {
		return nil, err
	}
	if err := checkAlarm(a.Row); err != nil {
		return nil, fmt.Errorf("alarm %s of %s: %w", a.BusinessID, a.Application, err)
	}
	if len(attempts) > clock.MaxAttempts {
		return nil, errAttempts
	}
	for _, object := range attempts {
		var row engine.AttemptRow
		if err := attemptColumns.parseRow(object, reflect.ValueOf(&row).Elem()); err != nil {
			return nil, fmt.Errorf("an attempt: %w", err)
		}
		if err := checkAttempt(&row); err != nil {
			return nil, err
		}
		a.Attempts = append(a.Attempts, row)
	}
	return a, nil
}

// checkAlarm refuses a row that clockd could not have written. It changes only its copy.
func checkAlarm(row engine.Row) error {
	key := clock.Key{Application: row.Application, BusinessID: row.BusinessID}
	if err := key.Validate(); err != nil {
		return err
	}
	a := row.Alarm()
	switch {
	case a.Unreadable != "":
		return errors.New(a.Unreadable)
	case a.Priority < 0 || a.Priority > clock.MaxPriority || row.DueRank != int64(store.RankOf(&a.Content)):
		return fmt.Errorf("column due_rank is %d, which does not fit priority %d", row.DueRank, a.Priority)
	case a.Receiver != "" &&
		(clock.ValidateReceiver(a.Receiver) != nil || a.Destination.Number <= clock.MaxDestinations):
		return fmt.Errorf("column receiver is %.100q, with due_rank %d", row.Receiver, row.DueRank)
	case a.Receiver == "" && (a.Destination.Name == "") != (a.Destination.Number == 0):
		return fmt.Errorf("column due_rank is %d, which does not fit destination %q", row.DueRank, row.Destination)
	case a.Destination.Name != "" && clock.ValidateDestination(a.Destination.Name) != nil:
		return fmt.Errorf("column destination is %.100q", row.Destination)
	case row.DoubtTarget < 0 || row.DoubtTarget > math.MaxInt16:
		return fmt.Errorf("column doubt_target is %d", row.DoubtTarget)
	case !a.CreateTime.Valid():
		return fmt.Errorf("column create_time is %d", row.CreateTime)
	case a.NextTryTime == clock.NoInstant && !a.State.Over() && a.State != clock.Paused:
		return fmt.Errorf("it is %s, but has no next_try_time: it would never ring", a.State)
	case a.State.Over() && (a.NextTryTime != clock.NoInstant || a.FinishedAt == clock.NoInstant):
		return fmt.Errorf("it is %s, so it must have finished_at and no next_try_time", a.State)
	}
	return checkTexts([]textColumn{
		{"content_type", row.ContentType, clock.MaxContentType, true},
		{"retry_policy", row.RetryPolicy, 128, true},
		{"traceparent", row.Traceparent, clock.MaxTraceparent, true},
		{"claim_id", row.ClaimID, maxClaimID, true},
		{"past_generations", row.PastGenerations, clock.MaxPastGenerations, false},
		{"last_error", row.LastError, clock.MaxReason, false},
		{"answered_by", row.AnsweredBy, settings.MaxChangedBy, false},
	})
}

func checkAttempt(row *engine.AttemptRow) error {
	for _, n := range []struct {
		name       string
		value, max int64
	}{
		{"generation", row.Generation, math.MaxInt64}, {"ring_no", row.RingNo, math.MaxInt32},
		{"outcome", row.Outcome, math.MaxInt8},
		{"attempt_time", row.AttemptTime, int64(clock.MaxInstant)},
	} {
		if n.value < 0 || n.value > n.max {
			return fmt.Errorf("an attempt: column %s is %d", n.name, n.value)
		}
	}
	return checkTexts([]textColumn{
		{"claim_id", row.ClaimID, maxClaimID, true}, {"error", row.Error, clock.MaxReason, false},
		{"answered_by", row.AnsweredBy, settings.MaxChangedBy, false},
	})
}

// maxClaimID is the length of the columns claim_id.
const maxClaimID = 26

// textColumn is a text with the limits of its column.
type textColumn struct {
	name, value string
	max         int // characters
	ascii       bool
}

func checkTexts(texts []textColumn) error {
	for _, t := range texts {
		switch {
		case utf8.RuneCountInString(t.value) > t.max:
			return fmt.Errorf("column %s is longer than %d characters", t.name, t.max)
		case strings.Contains(t.value, "\x00"):
			return fmt.Errorf("column %s contains NUL", t.name)
		case t.ascii && strings.ContainsFunc(t.value, func(r rune) bool { return r > unicode.MaxASCII }):
			return fmt.Errorf("column %s is not ASCII", t.name)
		}
	}
	return nil
}
