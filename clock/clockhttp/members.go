package clockhttp

import "bytes"

// members iterates over the members of a JSON object, in order, without decoding their values. The text must be valid
// JSON (json.Valid), because members checks no syntax.
type members struct {
	rest []byte // text from the next key, or from the closing brace
}

// objectMembers returns the members of raw. ok is false if raw is not an object.
func objectMembers(raw []byte) (m members, ok bool) {
	raw = skipBlanks(raw)
	if len(raw) == 0 || raw[0] != '{' {
		return members{}, false
	}
	return members{rest: skipBlanks(raw[1:])}, true
}

// next returns the text of the next key, with its quotes, and of its value. ok is false at the end.
func (m *members) next() (key, value []byte, ok bool) {
	if m.rest[0] == '}' {
		return nil, nil, false
	}
	key, rest := cutValue(m.rest)
	value, rest = cutValue(skipBlanks(skipBlanks(rest)[1:])) // skips the colon
	m.rest = skipComma(rest)
	return key, value, true
}

// each calls decode for all members and returns the set of their names. It stops at the first error of decode and at
// the first duplicate name. The error for a duplicate name puts parent ("retry." or empty) before the name.
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

// nameOf returns the name that a key stands for. It returns a key that cannot be unquoted as it is written, without
// quotes.
func nameOf(key []byte) string {
	name, err := unquote(key)
	if err != nil {
		return string(key[1 : len(key)-1])
	}
	return name
}

// elements iterates over the elements of a JSON array, as members iterates over an object.
type elements struct {
	rest []byte // text from the next element, or from the closing bracket
}

// arrayElements returns the elements of raw. ok is false if raw is not an array.
func arrayElements(raw []byte) (e elements, ok bool) {
	raw = skipBlanks(raw)
	if len(raw) == 0 || raw[0] != '[' {
		return elements{}, false
	}
	return elements{rest: skipBlanks(raw[1:])}, true
}

// next returns the text of the next element. ok is false at the end.
func (e *elements) next() (value []byte, ok bool) {
	if e.rest[0] == ']' {
		return nil, false
	}
	value, rest := cutValue(e.rest)
	e.rest = skipComma(rest)
	return value, true
}

// skipComma returns the text from the next member or element, or from the closing bracket.
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

// cutValue splits b after the value at its start.
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

// stringEnd returns the index after the string at the start of b.
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

// nestedEnd returns the index after the object or array at the start of b.
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

// scalarEnd returns the index after the number, true, false or null at the start of b.
func scalarEnd(b []byte) int {
	for i, c := range b {
		switch c {
		case ',', '}', ']', ' ', '\n', '\t', '\r':
			return i
		}
	}
	return len(b)
}
