package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/clockd/clockd/clock"
)

// eachMember calls decode with each member of a JSON object that is not null. It refuses names that are not known (nil:
// all are), and names that come twice. parent is the prefix of the names in errors.
func eachMember(parent string, object []byte, known []string, decode func(name string, raw []byte) error) error {
	field := strings.TrimSuffix(parent, ".")
	if !utf8.Valid(object) {
		return clock.Invalid(clock.CodeInvalidValue, field, "JSON must be UTF-8")
	}
	detail := "one JSON object is needed"
	if len(known) > 0 {
		detail += fmt.Sprintf(`, such as {%q:null}`, known[0])
	}
	whole := clock.Invalid(clock.CodeInvalidValue, field, detail)
	d := json.NewDecoder(bytes.NewReader(object))
	if begin, err := d.Token(); err != nil || begin != json.Delim('{') {
		return whole
	}
	seen := map[string]bool{}
	for d.More() {
		var raw json.RawMessage
		key, err := d.Token()
		if err == nil {
			err = d.Decode(&raw)
		}
		name, isName := key.(string)
		switch {
		case err != nil || !isName:
			return whole
		case known != nil && !slices.Contains(known, name):
			return clock.Invalid(clock.CodeUnknownField, parent+cleanName(name),
				fmt.Sprintf("unknown field %.64q; known are %s", name, strings.Join(known, ", ")))
		case seen[name]:
			field := parent + cleanName(name)
			return clock.Invalid(clock.CodeAmbiguous, field, field+" occurs twice; give it once")
		case !bytes.Equal(raw, []byte("null")):
			if err := decode(name, raw); err != nil {
				return err
			}
		}
		seen[name] = true
	}
	if _, err := d.Token(); err != nil {
		return whole
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return whole
	}
	return nil
}

// parseText reads a string.
func parseText(raw []byte, field string, into *string) error {
	if raw[0] != '"' || json.Unmarshal(raw, into) != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a string")
	}
	const replaced = "\ufffd" // what encoding/json makes of half a pair
	if strings.Contains(*into, replaced) && !bytes.Contains(raw, []byte(replaced)) &&
		!bytes.Contains(bytes.ToLower(raw), []byte(`\ufffd`)) {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" has half of a surrogate pair")
	}
	return nil
}

// parseDuration reads a duration like "30s", or whole milliseconds without quotes.
func parseDuration(raw []byte, field string, into *time.Duration) error {
	var text string
	var ms int64
	err := json.Unmarshal(raw, &text)
	if err == nil {
		*into, err = clock.ParseDuration(text)
	} else if err = json.Unmarshal(raw, &ms); err == nil {
		*into, err = clock.DurationOfMillis(ms)
	}
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field,
			fmt.Sprintf(`%s must be a duration like "30s", or whole milliseconds without quotes`, field))
	}
	return nil
}

// parseInteger reads a whole number.
func parseInteger(raw []byte, field string, into *int) error {
	n, err := strconv.ParseInt(string(raw), 10, 32)
	if err != nil {
		return clock.Invalid(clock.CodeInvalidValue, field, field+" must be a whole number")
	}
	*into = int(n)
	return nil
}

// cleanName returns the name of a member as an error may repeat it.
func cleanName(s string) string {
	const longest = 64
	if len(s) > longest || strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
		return strconv.QuoteToASCII(s[:min(len(s), longest)])
	}
	return s
}
