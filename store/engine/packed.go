package engine

import (
	"errors"
	"strconv"
	"strings"

	"github.com/clockd/clockd/clock"
)

// errPacked does not quote the unreadable text, because it may be a payload.
var errPacked = errors.New("a packed row cannot be read")

// Packed reads a row that its statement returns as one value, because the drivers of MySQL and SQLite allocate memory
// for each value. The row consists of numbers and texts, separated by blanks; each text follows its length in bytes.
// The results share the row's memory.
type Packed struct {
	rest string
	err  error // first error; afterwards all numbers are 0 and all texts empty
}

// Unpack returns a reader of the row.
func Unpack(row string) Packed { return Packed{rest: row} }

// End returns the first error. It is an error if a column is missing or left over.
func (p *Packed) End() error {
	if p.rest != "" {
		p.fail()
	}
	return p.err
}

// Number reads the next number.
func (p *Packed) Number() int64 {
	word, rest, _ := strings.Cut(p.rest, " ")
	n, err := strconv.ParseInt(word, 10, 64)
	if err != nil {
		p.fail()
		return 0
	}
	p.rest = rest
	return n
}

// Text reads the next length, and the text after it.
func (p *Packed) Text() string { return p.bytes(int(p.Number())) }

// Rest returns the bytes that are not read yet.
func (p *Packed) Rest() string {
	rest := p.rest
	p.rest = ""
	return rest
}

// bytes reads a text of n bytes, whose length was read before.
func (p *Packed) bytes(n int) string {
	if n < 0 || n > len(p.rest) {
		p.fail()
		return ""
	}
	text := p.rest[:n]
	p.rest = strings.TrimPrefix(p.rest[n:], " ")
	return text
}

func (p *Packed) fail() { p.rest, p.err = "", errPacked }

// InlineBytes is the length of the longest payload that LockDue reads. Longer payloads are read only for rows that fit
// into the claim.
const InlineBytes = 4 << 10

// AnyGeneration stands for the generation of a row that cannot be unpacked.
const AnyGeneration = -1

// ReadDue reads a packed row of LockDue, and the server's clock in front of it. It is an error if not even the id can
// be read.
func ReadDue(row string) (DueRow, clock.Instant, error) {
	r, server, err := unpackDue(row)
	if err == nil || r.ID == 0 {
		return r, server, err
	}
	return DueRow{
		DueColumns: DueColumns{ID: r.ID, Generation: AnyGeneration},
		Unreadable: "the row cannot be read: a column is NULL or of another type",
	}, server, nil
}

// unpackDue unpacks a row in the column order of LockDue. The texts share the row's memory.
func unpackDue(row string) (r DueRow, server clock.Instant, err error) {
	p := Unpack(row)
	server = clock.Instant(p.Number())
	r.ID = p.Number()
	r.Generation = p.Number()
	r.State = p.Number()
	r.RingNo = p.Number()
	r.RetryTimes = p.Number()
	r.InDoubt = p.Number()
	r.RungAt = ToNull(clock.Instant(p.Number()))
	r.NextTryTime = ToNull(clock.Instant(p.Number()))
	r.UpdateTime = p.Number()
	r.Shard = p.Number()
	r.MaxRings = p.Number()
	r.AckTimeout = p.Number()
	r.Delivery = p.Number()
	r.Priority = p.Number()
	r.DueRank = p.Number()
	r.DoubtTarget = p.Number()
	r.TargetRingAt = p.Number()
	r.LatestRingAt = ToNull(clock.Instant(p.Number()))
	r.Application, r.BusinessID = p.Text(), p.Text()
	r.LastError = p.Text()
	r.ClaimID = p.Text()
	r.RetryPolicy = p.Text()
	r.Traceparent = p.Text()
	r.ContentType = p.Text()
	r.RepeatRule, r.RepeatState = p.Text(), p.Text()
	r.Destination, r.Receiver = p.Text(), p.Text()
	r.PayloadKind = p.Number()
	r.PayloadLength = p.Number()
	if r.PayloadLength <= InlineBytes {
		r.Payload = []byte(p.bytes(int(r.PayloadLength)))
	}
	return r, server, p.End()
}

// AddLongPayloads sets the payloads that a packed row leaves out, because they are longer than InlineBytes. read reads
// them by id.
func AddLongPayloads(rows []*DueRow, read func(long []*DueRow) ([]PayloadRow, error)) error {
	var long []*DueRow
	for _, r := range rows {
		if r.PayloadLength > InlineBytes {
			long = append(long, r)
		}
	}
	if len(long) == 0 {
		return nil
	}
	found, err := read(long)
	SetPayloads(long, found, func(r PayloadRow) PayloadRow { return r })
	return err
}
