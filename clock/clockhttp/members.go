package clockhttp

import "bytes"

// members walks over the members of a JSON object, in order, without decoding their values. The text must be valid JSON
// (json.Valid): nothing is checked again.
type members struct {
	rest []byte // from the next key on, or the closing brace
}

// objectMembers returns the members of raw; ok is false if raw is no object.
func objectMembers(raw []byte) (m members, ok bool) {
	raw = skipBlanks(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return members{}, false
	}
	return members{rest: skipBlanks(raw[1:])}, true
}

// next returns the key, with its quotes, and the value as they are written; ok is false at the end.
func (m *members) next() (key, value []byte, ok bool) {
	if m.rest[0] == '}' {
		return nil, nil, false
	}
	key, rest := cutValue(m.rest)
	value, rest = cutValue(skipBlanks(skipBlanks(rest)[1:])) // the colon
	m.rest = skipComma(rest)
	return key, value, true
}

// each hands all members to decode, by name, and returns the names. It ends at the first error, decode's or that of a name that
// stands twice, which is told below parent ("retry.", or empty).
func (m *members) each(parent string, decode func(name string, value []byte) error) (seen map[string]bool, err error) {
	seen = map[string]bool{}
	for key, value, more := m.next(); more; key, value, more = m.next() {
		name := nameOf(key)
		if seen[name] {
			return seen, duplicateField(parent + name)
		}
		seen[name] = true
		if err := decode(name, value); err != nil {
			return seen, err
		}
	}
	return seen, nil
}

// nameOf returns a key as a name; one that cannot be unquoted as it is written.
func nameOf(key []byte) string {
	name, err := unquote(key)
	if err != nil {
		return string(key[1 : len(key)-1])
	}
	return name
}

// elements walks over the elements of a JSON array in the same way.
type elements struct {
	rest []byte
}

// arrayElements returns the elements of raw; ok is false if raw is no array.
func arrayElements(raw []byte) (e elements, ok bool) {
	raw = skipBlanks(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return elements{}, false
	}
	return elements{rest: skipBlanks(raw[1:])}, true
}

// next returns the next element as it is written; ok is false at the end.
func (e *elements) next() (value []byte, ok bool) {
	if e.rest[0] == ']' {
		return nil, false
	}
	value, rest := cutValue(e.rest)
	e.rest = skipComma(rest)
	return value, true
}

// skipComma goes on to the next member or element, or to the bracket that closes.
func skipComma(b []byte) []byte {
	b = skipBlanks(b)
	if b[0] == ',' {
		return skipBlanks(b[1:])
	}
	return b
}

func skipBlanks(b []byte) []byte {
	for i, c := range b {
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return b[i:]
		}
	}
	return nil
}

// cutValue cuts the value that b begins with.
func cutValue(b []byte) (value, rest []byte) {
	n := 0
	switch b[0] {
	case '"':
		n = stringEnd(b)
	case '{', '[':
		n = nestedEnd(b)
	default:
		n = scalarEnd(b)
	}
	return b[:n], b[n:]
}

// stringEnd returns where the string that b begins with ends.
func stringEnd(b []byte) int {
	for i := 1; ; {
		i += bytes.IndexByte(b[i:], '"')
		slashes := 0
		for b[i-1-slashes] == '\\' {
			slashes++
		}
		i++
		if slashes%2 == 0 {
			return i
		}
	}
}

// nestedEnd returns where the object or array that b begins with ends.
func nestedEnd(b []byte) int {
	depth := 0
	for i := 0; ; i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
	}
}

// scalarEnd returns where the number, true, false or null that b begins with ends.
func scalarEnd(b []byte) int {
	for i, c := range b {
		switch c {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(b)
}
