package clock

import (
	"strconv"
	"strings"
)

// RingID identifies one ring. Its text is the message id, "<alarm id>.<generation>.<ring_no>".
type RingID struct {
	AlarmID    int64
	Generation int64
	RingNo     int
}

// ParseRingID reads a message id as String writes it. Any other text is ErrInvalid.
func ParseRingID(s string) (RingID, error) {
	parts := strings.Split(s, ".")
	var n [3]int64
	good := len(parts) == len(n)
	for i := 0; good && i < len(n); i++ {
		v, err := strconv.ParseInt(parts[i], 10, 64)
		good = err == nil && v >= 1 && strconv.FormatInt(v, 10) == parts[i]
		n[i] = v
	}
	if !good || n[2] > maxRingNo {
		return RingID{}, invalidRingID()
	}
	return RingID{AlarmID: n[0], Generation: n[1], RingNo: int(n[2])}, nil
}

func invalidRingID() error {
	return invalid(CodeInvalidValue, "message_id",
		"message_id must be the message id of a ring: <id>.<generation>.<ring_no>")
}

// maxRingNo is the largest number that the column ring_no holds.
const maxRingNo = 1<<31 - 1

// String returns the message id.
func (r RingID) String() string {
	return string(r.Append(make([]byte, 0, 32)))
}

// Append appends the message id to b.
func (r RingID) Append(b []byte) []byte {
	b = strconv.AppendInt(b, r.AlarmID, 10)
	b = append(b, '.')
	b = strconv.AppendInt(b, r.Generation, 10)
	b = append(b, '.')
	return strconv.AppendInt(b, int64(r.RingNo), 10)
}
