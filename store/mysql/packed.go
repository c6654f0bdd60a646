package mysql

import (
	"errors"
	"strconv"
	"strings"
)

// errPacked does not quote the unreadable text, because it may be a payload.
var errPacked = errors.New("a packed row cannot be read")

// packed reads a row that its statement returns as one value, because the driver allocates memory for each value. The row consists of numbers
// and texts, separated by blanks; each text follows its length in bytes. The results share the row's memory.
type packed struct {
	rest string
	err  error // first error; afterwards all numbers are 0 and all texts empty
}

// number reads the next number.
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

// text reads the next length, and the text after it.
func (p *packed) text() string { return p.bytes(int(p.number())) }

// bytes reads a text of n bytes, whose length was read before.
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
