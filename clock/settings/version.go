package settings

import (
	"fmt"

	"github.com/clockd/clockd/clock"
)

// Version is one version of an application's settings, as it is stored.
type Version struct {
	Application string
	Version     int64         // 1 at first, one more with each change; 0: the application never had settings
	Document    string        // JSON; Parse reads it. It is empty for Version 0
	ChangedAt   clock.Instant // clock.NoInstant for Version 0
	ChangedBy   string        // who changed it, at most MaxChangedBy bytes
}

// Change asks that an application's settings become this document.
type Change struct {
	Application string
	Document    string
	At          clock.Instant // the database's time
	By          clock.Actor   // who changes it; the name has at most MaxChangedBy bytes
	IfVersion   int64         // condition: the settings have this version; 0: the application never had settings; AnyVersion: no condition
}

// Rewrite asks that the stored documents of an application change their form, and not their content.
type Rewrite struct {
	Application string
	// Document returns the document to store for a version. It may be called more than once for a version.
	Document func(v *Version) string
	Action   string        // name of the act in the audit
	At       clock.Instant // the database's time
	By       clock.Actor
}

// OtherVersion returns the error of a change whose condition does not hold: the settings have another version.
func OtherVersion(application string, version, wanted int64) error {
	return &clock.Error{
		Kind: clock.ErrPrecondition, Code: clock.CodeConditionFailed, Field: "if_version",
		Detail: fmt.Sprintf("the settings of %q have version %d, not %d", application, version, wanted),
	}
}

// AnyVersion is the Change.IfVersion of a change without a condition.
const AnyVersion = -1

// Bounds of stored settings.
const (
	MaxChangedBy = 128      // bytes
	MaxDocument  = 16 << 10 // bytes of a stored document
	MaxGiven     = 64 << 10 // bytes of a document that a person gives, with blanks and values as people see them
	MaxHistory   = 1000     // versions that one call returns, at most
)
