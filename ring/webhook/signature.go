package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
)

// signatures returns the value of webhook-signature: one signature for each key, so that a receiver that knows any of
// the keys can check the request.
func signatures(keys [][]byte, id string, timestamp int64, body []byte) string {
	var value strings.Builder
	for i, key := range keys {
		if i > 0 {
			value.WriteByte(' ')
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id))
		mac.Write([]byte{'.'})
		mac.Write(strconv.AppendInt(nil, timestamp, 10))
		mac.Write([]byte{'.'})
		mac.Write(body)
		value.WriteString("v1,")
		value.WriteString(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	}
	return value.String()
}
