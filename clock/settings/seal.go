package settings

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Keys encrypt the secrets of documents in the database. The first key seals, and all open. Without keys nothing is
// sealed.
type Keys struct{ keys []key }

// key is an AES-256 key in GCM, with nonces that it makes by itself.
type key struct {
	id   string // 8 digits of the SHA-256 of the key
	aead cipher.AEAD
}

const (
	keySize = 32 // bytes of a key
	maxKeys = 16 // that a node has; their ids are a column of its row (store.Node)
)

var errKey = fmt.Errorf("a key must be %d random bytes in base64, as `openssl rand -base64 %d` prints them", keySize,
	keySize)

// ParseKeys reads keys in base64, with blanks or line breaks between them. Its errors show no part of the text.
func ParseKeys(text string) (Keys, error) {
	var k Keys
	known := map[string]bool{}
	for i, word := range strings.Fields(text) {
		raw, err := base64.StdEncoding.Strict().DecodeString(word)
		if err != nil || len(raw) != keySize {
			return Keys{}, fmt.Errorf("key %d: %w", i+1, errKey)
		}
		block, err := aes.NewCipher(raw)
		if err != nil {
			return Keys{}, err
		}
		aead, err := cipher.NewGCMWithRandomNonce(block)
		if err != nil {
			return Keys{}, err
		}
		sum := sha256.Sum256(raw)
		id := hex.EncodeToString(sum[:4])
		if known[id] {
			return Keys{}, fmt.Errorf("key %d comes twice", i+1)
		}
		if i == maxKeys {
			return Keys{}, fmt.Errorf("at most %d keys can be given", maxKeys)
		}
		known[id] = true
		k.keys = append(k.keys, key{id, aead})
	}
	if len(k.keys) == 0 && text != "" {
		return Keys{}, errKey
	}
	return k, nil
}

// sealed is the last member of a sealed document. The members before it are the document without secrets.
type sealed struct {
	Key      string `json:"key"`      // id of the key
	Document []byte `json:"document"` // the whole document: nonce, ciphertext and tag
}

// sealedMember begins the member sealed. Quotes in names and values are escaped, so this text is in front of a member.
const sealedMember = `,"sealed":`

// maxStored is the most bytes of a sealed document, as large as the column of MySQL.
const maxStored = 64<<10 - 1

// IDs returns the ids of the keys: 8 digits of the SHA-256 of each.
func (k Keys) IDs() (ids []string) {
	for _, key := range k.keys {
		ids = append(ids, key.id)
	}
	return ids
}

// Hides reports whether people do not see the whole of a document.
func (f *Form) Hides(document string) bool {
	s, err := f.Parse(document)
	return err == nil && string(f.stored.encode(&s, true)) != f.Encode(&s)
}

// WithKeys returns a form that seals and opens with these keys.
func (f *Form) WithKeys(keys Keys) *Form {
	g := *f
	g.keys = keys
	return &g
}

// Seal returns a document as the database gets it: sealed by the first key, if there is one and the document hides
// something from people. An error is as of Parse.
func (f *Form) Seal(application, document string) (stored string, err error) {
	if len(f.keys.keys) == 0 {
		return document, nil
	}
	s, err := f.Parse(document)
	if err != nil {
		return "", err
	}
	if shown := string(f.stored.encode(&s, true)); shown != f.Encode(&s) {
		document = f.sealAs(application, document, shown)
	}
	return document, nil
}

// Reseal returns a stored document as Seal would store it now. It is the same text if the first key sealed it, or if
// nothing is to be sealed. An error is as of Parse.
func (f *Form) Reseal(application, stored string) (string, error) {
	document, err := f.Open(application, stored)
	if err != nil {
		return "", err
	}
	box, shown, err := boxOf(stored)
	switch {
	case err != nil:
		return "", err
	case box == nil:
		return f.Seal(application, document)
	case box.Key == f.keys.keys[0].id:
		return stored, nil
	default:
		return f.sealAs(application, document, shown), nil
	}
}

// sealAs seals a document with the first key. shown is what people see of it.
func (f *Form) sealAs(application, document, shown string) string {
	first := f.keys.keys[0]
	box := sealed{first.id, first.aead.Seal(nil, nil, []byte(document), bound(application, shown))}
	return strings.TrimSuffix(shown, "}") + sealedMember + string(box.encode()) + "}"
}

// Open returns the document of a stored one. A *clock.Error of kind clock.ErrInvalid says why it cannot be opened.
func (f *Form) Open(application, stored string) (document string, err error) {
	box, shown, err := boxOf(stored)
	if err != nil || box == nil {
		return stored, err
	}
	for _, key := range f.keys.keys {
		if key.id != box.Key {
			continue
		}
		plain, err := key.aead.Open(nil, nil, box.Document, bound(application, shown))
		if err != nil {
			return "", notOpened(clock.CodeInvalidValue, fmt.Sprintf("the settings are encrypted with the key %s, and were "+
				"changed since, or belong to another application", key.id))
		}
		return string(plain), nil
	}
	return "", notOpened(clock.CodeMissingKey, fmt.Sprintf("the settings are encrypted, and their key %.8s is not given here "+
		"(CLOCKD_SECRET_KEY_FILE)", box.Key))
}

// MissingKey reports whether err says that the key of settings is not given.
func MissingKey(err error) bool {
	e, is := errors.AsType[*clock.Error](err)
	return is && e.Code == clock.CodeMissingKey
}

// Sealed reports whether err says that sealed settings cannot be opened, whatever the reason.
func Sealed(err error) bool {
	e, is := errors.AsType[*clock.Error](err)
	return is && e.Field == sealedField
}

// KeyOf returns the id of the key of a stored document, "" if it is not sealed or cannot be opened.
func KeyOf(stored string) string {
	box, _, err := boxOf(stored)
	if err != nil || box == nil {
		return ""
	}
	return box.Key
}

// Load reads the document of a stored version. An error is as of Parse. A document with values as people see them, such
// as the rest of a sealed one, is refused.
func (f *Form) Load(v *Version) (Settings, error) {
	document, err := f.Open(v.Application, v.Document)
	if err == nil {
		err = checkSize(document, MaxDocument)
	}
	if err != nil {
		return Settings{}, err
	}
	return f.parse(f.stored, document, func(s *Settings) error { return f.restore(s, &Settings{}, true) })
}

// encode returns the member.
func (b *sealed) encode() []byte {
	member, err := json.Marshal(b)
	if err != nil {
		panic("settings: encode the member sealed: " + err.Error())
	}
	return member
}

// boxOf returns the member sealed of a stored document, nil if it has none, and the document without the member.
func boxOf(stored string) (box *sealed, shown string, err error) {
	var members struct {
		Sealed json.RawMessage `json:"sealed"`
	}
	_ = json.Unmarshal([]byte(stored), &members) // a fault is for Parse
	if members.Sealed == nil {
		return nil, "", nil
	}
	box = &sealed{}
	rest := sealedMember + string(members.Sealed) + "}"
	shown, last := strings.CutSuffix(stored, rest)
	if !last || json.Unmarshal(members.Sealed, box) != nil || !bytes.Equal(box.encode(), members.Sealed) {
		return nil, "", notOpened(clock.CodeInvalidValue, "the settings are encrypted, and were changed since")
	}
	return box, shown + "}", checkSize(stored, maxStored)
}

// bound returns what belongs to a sealed document unchanged: the application, and what people see.
func bound(application, shown string) []byte {
	return []byte("clockd settings\x00" + application + "\x00" + shown)
}

// sealedField is the field at fault of settings that cannot be opened.
const sealedField = "sealed"

func notOpened(code, why string) error { return clock.Invalid(code, sealedField, why) }
