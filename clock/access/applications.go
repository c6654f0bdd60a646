package access

import (
	"errors"
	"fmt"
	"strings"

	"github.com/clockd/clockd/clock"
)

// Applications are the applications of a token: names, beginnings of names like "shop-*", and "*" for all. Nil covers
// none.
type Applications []string

// all covers all applications.
const all = "*"

// maxApplications is the most entries of Applications.
const maxApplications = 100

// errApplications is the error for Applications of a wrong length.
var errApplications = fmt.Errorf("a token needs 1 to %d applications: names, beginnings like shop-*, or * for all",
	maxApplications)

// ParseApplications reads entries that are separated by commas.
func ParseApplications(s string) (Applications, error) {
	a := Applications(strings.Split(s, ","))
	return a, a.Validate()
}

// Validate returns an error that names the wrong entries, or nil.
func (a Applications) Validate() error {
	if len(a) == 0 || len(a) > maxApplications {
		return errApplications
	}
	var errs []error
	for _, entry := range a {
		name := strings.TrimSuffix(entry, all)
		if entry != all && clock.ValidateApplication(name) != nil {
			errs = append(errs, fmt.Errorf("%q is neither an application nor a beginning like shop-*", entry))
		}
	}
	return errors.Join(errs...)
}

// Cover reports whether an entry covers the application.
func (a Applications) Cover(application string) bool {
	for _, entry := range a {
		beginning, starred := strings.CutSuffix(entry, all)
		if entry == application || starred && strings.HasPrefix(application, beginning) {
			return true
		}
	}
	return false
}

// CoverAll reports whether an entry is "*".
func (a Applications) CoverAll() bool {
	for _, entry := range a {
		if entry == all {
			return true
		}
	}
	return false
}

// String returns the entries, separated by commas.
func (a Applications) String() string { return strings.Join(a, ",") }
