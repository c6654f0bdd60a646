package store

import (
	"errors"
	"fmt"
	"strconv"
)

// buildLevel is a decimal number. It is a string so that a test can build clockd with another level: -ldflags "-X
// ...buildLevel=2".
var buildLevel = "5"

// BuildLevel returns the build level of this build: a number that says which meaning of the stored data the build
// knows. The table build_level names the oldest level that may work on the database. Claims, writes and lease renewals
// check it in their statements.
//
// Raise the build level by one together with a migration that builds of the previous level cannot work beside. The
// header of such a migration says "side by side: no". Its first statement sets build_level.oldest to the new level. Its
// second statement changes the table alarm. That statement waits for the open transactions of old builds. Later
// transactions see the new level.
//
// A migration that previous builds can work beside says "side by side: yes". It changes neither buildLevel nor the
// table build_level.
func BuildLevel() int64 {
	level, err := strconv.ParseInt(buildLevel, 10, 64)
	if err != nil {
		panic(fmt.Sprintf("store: the build level %q is not a number", buildLevel)) // the linker's flags are wrong
	}
	return level
}

// ErrOldBuild is wrapped by the errors of calls that the database refuses because this build is too old.
var ErrOldBuild = errors.New("this build of clockd is too old for the database")

// CheckBuild returns an error that wraps ErrOldBuild when oldest, the oldest level that may work on the database, is
// above this build's level.
func CheckBuild(oldest int64) error {
	if level := BuildLevel(); level < oldest {
		return fmt.Errorf("%w: it demands build level %d or later, and this build has %d: replace this node by a newer one", ErrOldBuild, oldest, level)
	}
	return nil
}
