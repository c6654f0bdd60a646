package clock

import "bytes"

// MaxPayloadDepth is the deepest nesting of arrays and objects in a payload of JSON. A page shows the payload three
// levels deeper, and an envelope of a webhook one. Readers of JSON bound the nesting, and could read neither otherwise:
// PHP to 512 levels, Python and Jackson for Java to about 1,000, encoding/json of Go to 10,000. A deeper payload of a
// set is refused. Stored deeper payloads stay as they are.
const MaxPayloadDepth = 500

// nestsTooDeep reports whether a valid JSON text nests deeper than MaxPayloadDepth. It looks at each byte only if the
// text has enough brackets.
func nestsTooDeep(text []byte) bool {
	if len(text) <= 2*MaxPayloadDepth ||
		bytes.Count(text, []byte{'['})+bytes.Count(text, []byte{'{'}) <= MaxPayloadDepth {
		return false
	}
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			i += quotedLen(text[i:]) - 1
		case '[', '{':
			if depth++; depth > MaxPayloadDepth {
				return true
			}
		case ']', '}':
			depth--
		}
	}
	return false
}

// quotedLen returns the length of the JSON string at the start of text, with its quotes.
func quotedLen(text []byte) int {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
	}
	return len(text)
}
