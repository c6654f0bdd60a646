package mysql

import (
	"errors"
	"strconv"
	"strings"
)

// errPacked does not tell what could not be read: it may be a payload.
var errPacked = errors.New("a packed row cannot be read")

// packed is a row that its statement gives as one value, for the driver allocates for each: numbers and texts with a blank
// between them, a text after its length in bytes. What is read of it shares its memory.
type packed struct {
	rest string
	err  error // all that is read after it is 0 and empty
}

// number reads a number.
func (p *packed) number() int64 {
	word, rest, _ := strings.Cut(p.rest, " ")
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		p.fail()
		return 0
	}
	p.rest = rest
	return n
}

// text reads a length and a text.
func (p *packed) text() string { return p.bytes(int(p.number())) }

// bytes reads a text whose length was read before.
func (p *packed) bytes(n int) string {
	if n < 0 || n > len(p.rest) {
		p.fail()
		return ""
	}
	text := p.rest[:n]
	p.rest = strings.TrimPrefix(p.rest[n:], " ")
	return text
}

func (p *packed) fail() { p.rest, p.err = "", errPacked }
