package clockhttp

import (
	"bytes"
	"errors"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

var errLoneSurrogate = errors.New(`has half of a surrogate pair, which is not a character: write both \u escapes`)

// unquote decodes raw, which must be a valid JSON string in valid UTF-8.
func unquote(raw []byte) (string, error) {
	raw = raw[1 : len(raw)-1]
	if bytes.IndexByte(raw, '\\') < 0 {
		return string(raw), nil
	}
	b, err := unescape(raw)
	return string(b), err
}

func unescape(raw []byte) ([]byte, error) {
	out := make([]byte, 0, len(raw))
	for {
		n := bytes.IndexByte(raw, '\\')
		if n < 0 {
			return append(out, raw...), nil
		}
		out = append(out, raw[:n]...)
		raw = raw[n:]
		if raw[1] != 'u' {
			out = append(out, unescaped(raw[1]))
			raw = raw[2:]
			continue
		}
		r, size := escapedRune(raw)
		if r == utf8.RuneError && utf16.IsSurrogate(hexRune(raw)) {
			return nil, errLoneSurrogate
		}
		out = utf8.AppendRune(out, r)
		raw = raw[size:]
	}
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	default:
		return c // " \ /
	}
}

// escapedRune reads the \u escape or the surrogate pair at the start of raw. It returns RuneError for half a pair.
func escapedRune(raw []byte) (r rune, size int) {
	r = hexRune(raw)
	if !utf16.IsSurrogate(r) {
		return r, 6
	}
	if len(raw) >= 12 && raw[6] == '\\' && raw[7] == 'u' {
		return utf16.DecodeRune(r, hexRune(raw[6:])), 12
	}
	return utf8.RuneError, 6
}

// hexRune reads the four digits of \uXXXX.
func hexRune(raw []byte) rune {
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	if err != nil {
		return utf8.RuneError
	}
	return rune(n)
}

const hexDigits = "0123456789abcdef"

// appendString appends s as a JSON string. Each byte that is not part of valid UTF-8 becomes U+FFFD.
func appendString[T string | []byte](b []byte, s T) []byte {
	b = append(b, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			if n := validRune(s[i:min(i+utf8.UTFMax, len(s))]); n > 0 {
				i += n
				continue
			}
		}
		b = append(b, s[from:i]...)
		b = appendEscaped(b, c)
		i++
		from = i
	}
	b = append(b, s[from:]...)
	return append(b, '"')
}

// validRune returns the size in bytes of the first character of s, 0 if s does not begin with valid UTF-8.
func validRune[T string | []byte](s T) int {
	r, n := utf8.DecodeRuneInString(string(s))
	if r == utf8.RuneError && n == 1 {
		return 0
	}
	return n
}

func appendEscaped(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	if c >= utf8.RuneSelf {
		return append(b, "\ufffd"...)
	}
	return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
}
