package clock

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
)

// ListPosition is a place in a list of alarms. The zero value is before all alarms.
type ListPosition struct {
	BusinessID string // in a list by business id: the place behind this id

	// Application is set in a list of all applications: BusinessID is of this one. Without a business id it is the place
	// before its alarms.
	Application string

	// In a list by due time: the place before this entry of the due index.
	DueTime Instant
	DueRank int
	DueID   int64
}

// IsZero reports whether the position is before all alarms. As the end of a list it means that no alarms follow.
func (p ListPosition) IsZero() bool { return p == ListPosition{} }

// A cursor is the base64url form of a version (1 byte), a CRC-32 (4 bytes) and a position. Version 1 has a business id.
// Version 2 has a place in the due index: due time (8 bytes), rank (2 bytes), id (8 bytes). Version 3 has an
// application, a zero byte, and a business id or none. The CRC-32 covers the application of the list, a zero byte and
// the position. It detects cut cursors and cursors of other lists.
const (
	cursorVersion    = 1
	dueCursorVersion = 2
	allCursorVersion = 3
	cursorHead       = 5
	dueCursorBody    = 18
)

// EncodeCursor returns the cursor of a position in a list of an application; empty: in a list of all applications.
func EncodeCursor(application string, p ListPosition) string {
	version, body := byte(cursorVersion), []byte(p.BusinessID)
	switch {
	case p.Application != "":
		version, body = allCursorVersion, []byte(p.Application+"\x00"+p.BusinessID)
	case p.BusinessID == "":
		version, body = dueCursorVersion, p.dueBody()
	}
	b := make([]byte, 0, cursorHead+len(body))
	b = append(b, version)
	b = binary.BigEndian.AppendUint32(b, cursorSum(application, body))
	return base64.RawURLEncoding.EncodeToString(append(b, body...))
}

func (p ListPosition) dueBody() []byte {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, dueCursorBody), uint64(p.DueTime))
	b = binary.BigEndian.AppendUint16(b, uint16(p.DueRank))
	return binary.BigEndian.AppendUint64(b, uint64(p.DueID))
}

// DecodeCursor returns the position of a cursor in a list of the application; empty: in a list of all applications.
func DecodeCursor(application, cursor string) (ListPosition, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) <= cursorHead {
		return ListPosition{}, invalidCursor()
	}
	var p ListPosition
	body := b[cursorHead:]
	switch {
	case b[0] == cursorVersion && ValidateBusinessID(string(body)) == nil:
		p.BusinessID = string(body)
	case b[0] == dueCursorVersion && len(body) == dueCursorBody:
		p.DueTime = Instant(binary.BigEndian.Uint64(body))
		p.DueRank = int(binary.BigEndian.Uint16(body[8:]))
		p.DueID = int64(binary.BigEndian.Uint64(body[10:]))
	case b[0] == allCursorVersion && application == "":
		p = allPosition(string(body))
	}
	if p.IsZero() || EncodeCursor(application, p) != cursor { // wrong version, sum, or base64 of another spelling
		return ListPosition{}, invalidCursor()
	}
	return p, nil
}

// allPosition returns the position of a cursor of version 3; zero if there is none.
func allPosition(body string) ListPosition {
	application, id, _ := strings.Cut(body, "\x00")
	if ValidateApplication(application) != nil || id != "" && ValidateBusinessID(id) != nil {
		return ListPosition{}
	}
	return ListPosition{Application: application, BusinessID: id}
}

func cursorSum(application string, body []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE([]byte(application+"\x00")), crc32.IEEETable, body)
}

func invalidCursor() error {
	return invalid(CodeInvalidCursor, "cursor",
		"the cursor is not from such a list; begin again without a cursor")
}
