package repeat

import "time"

// LocalInstant converts a local time in a time zone to epoch milliseconds. The text has the form 2026-12-24T18:00:00, with at most
// three decimals of a second, or 2026-12-24T18:00. An empty zone means UTC. A local time in a gap is the end of the gap; of a local time in
// an overlap the first is taken. A refusal is an *Error.
func LocalInstant(text, timeZone string) (int64, error) {
	label, err := parseLabel(text)
	if err != nil {
		return 0, err
	}
	if timeZone == "" {
		timeZone = "UTC"
	}
	z, err := loadZone(timeZone)
	if err != nil {
		return 0, err
	}
	at := z.reach(label)
	if at < 0 || at > maxInstant {
		return 0, refuse("local_time", "the local time must be in the years from 1970 to 9999")
	}
	return at, nil
}

func parseLabel(text string) (int64, error) {
	const minutes, seconds, millis = "2006-01-02T15:04", "2006-01-02T15:04:05", len("2006-01-02T15:04:05.000")
	layout := seconds
	if len(text) == len(minutes) {
		layout = minutes
	}
	label, err := time.Parse(layout, text)
	if err != nil || len(text) > millis || text[len("2006-01-02T15")] != ':' { // time.Parse takes an hour of one digit
		return 0, refuse("local_time", "%.40q is not a local time such as 2026-12-24T18:00:00, without offset and with at most three decimals", text)
	}
	return label.UnixMilli(), nil
}
