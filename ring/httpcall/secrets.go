package httpcall

import (
	"encoding/base64"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

const (
	// minSecret is the shortest text that Redact replaces, in bytes. Shorter texts would be found in ordinary words.
	minSecret = 4
	// maxEscape bounds the bytes of one escaped character.
	maxEscape = 10
	redacted  = "[redacted]"
)

// HeaderSecrets returns the secrets in the values of headers: each value, its part after the first blank (the token of
// "Bearer ..."), and the user and the password of "Basic ...".
func HeaderSecrets(headers map[string]string) []string {
	var secrets []string
	for _, value := range headers {
		scheme, credentials, _ := strings.Cut(value, " ")
		secrets = append(secrets, value, credentials)
		if !strings.EqualFold(scheme, "basic") {
			continue
		}
		if user, err := base64.StdEncoding.DecodeString(credentials); err == nil {
			_, password, _ := strings.Cut(string(user), ":")
			secrets = append(secrets, string(user), password)
		}
	}
	return secrets
}

// QuerySecrets returns the secrets in the query of a URL: the query, and the value of each parameter.
func QuerySecrets(u *url.URL) []string {
	secrets := []string{u.RawQuery}
	for parameter := range strings.SplitSeq(u.RawQuery, "&") {
		if _, value, named := strings.Cut(parameter, "="); named {
			parameter = value
		}
		secrets = append(secrets, parameter)
		if plain, err := url.QueryUnescape(parameter); err == nil {
			secrets = append(secrets, plain)
		}
	}
	return secrets
}

// SignatureSecrets returns the secrets in a header with signatures like "v1,abc= v1,def=".
func SignatureSecrets(h http.Header, name string) []string {
	value := h.Get(name)
	secrets := []string{value}
	for signature := range strings.FieldsSeq(value) {
		_, encoded, _ := strings.Cut(signature, ",")
		secrets = append(secrets, signature, encoded)
	}
	return secrets
}

// Redact replaces each secret of at least minSecret bytes in a reason, because a receiver may repeat the request in its
// response. It also finds secrets whose characters are escaped as in JSON, HTML or a URL, and the beginning of a secret
// at the end of the text, where the text may have been cut.
func Redact(text string, secrets []string) string {
	var hidden []string
	for _, s := range secrets {
		hidden = append(hidden, s, Printable([]byte(s))) // the text of a receiver has passed Printable
	}
	hidden = slices.DeleteFunc(hidden, func(s string) bool { return len(s) < minSecret })
	var b strings.Builder
	for i := 0; i < len(text); {
		longest := 0
		for _, s := range hidden {
			longest = max(longest, matchLen(text[i:], s))
		}
		if longest == 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(redacted)
		i += longest
	}
	return b.String()
}

// matchLen returns the number of bytes at the start of text that repeat the secret, 0 if they do not.
func matchLen(text, secret string) int {
	at := 0
	for i := range len(secret) {
		n := charLen(text[at:], secret[i])
		if n == 0 {
			rest := text[at:]
			cut := rest == "" || len(rest) < maxEscape && strings.IndexByte(`\%&`, rest[0]) >= 0
			if cut && i >= minSecret {
				return len(text)
			}
			return 0
		}
		at += n
	}
	return at
}

// charLen returns the number of bytes at the start of text that stand for the character c, as it is or escaped; 0 if
// they do not.
func charLen(text string, c byte) int {
	if text == "" {
		return 0
	}
	switch text[0] {
	case '\\':
		if code, ok := hexAt(text, `\u`, 4); ok && code == uint64(c) {
			return len(`\u`) + 4
		}
		if code, ok := hexAt(text, `\x`, 2); ok && code == uint64(c) {
			return len(`\x`) + 2
		}
		if len(text) > 1 && text[1] == c {
			return 2
		}
	case '%':
		if code, ok := hexAt(text, "%", 2); ok && code == uint64(c) {
			return len("%") + 2
		}
	case '+':
		if c == ' ' {
			return 1
		}
	case '&':
		if end := strings.IndexByte(text, ';'); end > 0 && end < maxEscape &&
			html.UnescapeString(text[:end+1]) == string(rune(c)) {
			return end + 1
		}
	}
	if text[0] == c {
		return 1
	}
	return 0
}

// hexAt returns the number of the given digits that follows prefix at the start of text.
func hexAt(text, prefix string, digits int) (uint64, bool) {
	rest, found := strings.CutPrefix(text, prefix)
	if !found || len(rest) < digits {
		return 0, false
	}
	code, err := strconv.ParseUint(rest[:digits], 16, 32)
	return code, err == nil
}
