package client

import (
	"bufio"
	"bytes"
	"io"
	"time"
)

// eventReader reads server-sent events.
type eventReader struct {
	lines  *bufio.Scanner
	lastID string // id of the last complete event that has one
}

// event is one event. An event of another program may have several lines of data.
type event struct {
	kind string
	id   string // id of this event, or of the last one before it that has an id; empty: none has one
	data []byte // valid until the next event is read; nil: the event has only an id
}

func newEventReader(r io.Reader) *eventReader {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, responseBytes)
	return &eventReader{lines: lines}
}

// next returns the next event with data or an id. The error is io.EOF at the end of the stream. An event without its
// blank line is not complete, and is dropped.
func (r *eventReader) next() (event, error) {
	e := event{id: r.lastID}
	lines := 0
	for r.lines.Scan() {
		line := r.lines.Bytes()
		if len(line) == 0 {
			if changed := e.id != r.lastID; lines > 0 || changed {
				r.lastID = e.id
				return e, nil
			}
			e = event{id: r.lastID}
			continue
		}
		field, value, _ := bytes.Cut(line, []byte(":")) // a comment has an empty field
		value = bytes.TrimPrefix(value, []byte(" "))
		switch string(field) {
		case "event":
			e.kind = string(value)
		case "id":
			if !bytes.ContainsRune(value, 0) { // as the specification says
				e.id = string(value)
			}
		case "data":
			if lines++; lines > 1 {
				e.data = append(e.data, '\n')
			}
			if len(e.data)+len(value) > responseBytes {
				return event{}, bufio.ErrTooLong
			}
			e.data = append(e.data, value...)
		}
	}
	if err := r.lines.Err(); err != nil {
		return event{}, err
	}
	return event{}, io.EOF
}

// watchedReader runs a timer while a read waits. The timer stands still while the caller does something else.
type watchedReader struct {
	r     io.Reader
	timer *time.Timer
	limit time.Duration // longest time of one read
}

func (w *watchedReader) Read(p []byte) (int, error) {
	w.timer.Reset(w.limit)
	defer w.timer.Stop()
	return w.r.Read(p)
}
