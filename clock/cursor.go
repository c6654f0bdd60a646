package clock

import (
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
)

// A cursor is the base64url form of three values: a version (1 byte), a CRC-32 (4 bytes), and the business id of the page's last
// alarm. The CRC-32 covers the application, a zero byte and the business id. It detects cut cursors and cursors of other
// applications.
const (
	cursorVersion = 1
	cursorHead    = 5
)

// EncodeCursor returns the cursor behind the page that ends with this alarm.
func EncodeCursor(last Key) string {
	b := make([]byte, 0, cursorHead+len(last.BusinessID))
	b = append(b, cursorVersion)
	b = binary.BigEndian.AppendUint32(b, cursorSum(last))
	b = append(b, last.BusinessID...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// DecodeCursor returns the business id of the last alarm on the previous page.
func DecodeCursor(application, cursor string) (string, error) {
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(b) <= cursorHead {
		return "", invalidCursor()
	}
	last := Key{Application: application, BusinessID: string(b[cursorHead:])}
	if EncodeCursor(last) != cursor || last.Validate() != nil { // wrong version, sum, or base64 of another spelling
		return "", invalidCursor()
	}
	return last.BusinessID, nil
}

func cursorSum(k Key) uint32 {
	return crc32.ChecksumIEEE([]byte(k.Application + "\x00" + k.BusinessID))
}

func invalidCursor() error {
	return invalid(CodeInvalidCursor, "cursor", "the cursor is not from a list of this application; begin again without a cursor")
}
